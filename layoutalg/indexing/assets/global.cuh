struct %(name)s_count {
    unsigned long long total, ideal;
};

constexpr %(name)s_count %(name)s_of(const unsigned long long (&address)[%(lanes)d],
                                     const bool (&active)[%(lanes)d]) {
    unsigned long long met[%(served)d * %(reach)d] = {};
    unsigned all = 0;
    for (unsigned lane = 0; lane < %(served)d; ++lane) {
        if (!active[lane]) continue;
        const unsigned long long last = (address[lane] + %(width)d - 1) / %(sector)d;
        for (unsigned long long sector = address[lane] / %(sector)d; sector <= last; ++sector) {
            bool again = false;
            for (unsigned j = 0; j < all && !again; ++j) again = met[j] == sector;
            if (!again) met[all++] = sector;
        }
    }
    return {all, all};
}
