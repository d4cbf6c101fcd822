struct %(name)s_count {
    unsigned long long total, ideal;
};

constexpr bool %(name)s_agree(const unsigned long long (&address)[%(lanes)d], const bool (&active)[%(lanes)d],
                              unsigned apart) {
    for (unsigned lane = 0; lane < %(lanes)d; ++lane)
        if (active[lane] && active[lane ^ apart] && address[lane] != address[lane ^ apart]) return false;
    return true;
}

constexpr %(name)s_count %(name)s_of(const unsigned long long (&address)[%(lanes)d],
                                     const bool (&active)[%(lanes)d]) {
    const unsigned order[%(served)d] = {%(order)s};
    const unsigned span = %(merges)s ? 2 * %(group)d : %(group)d;
    %(name)s_count sum = {0, 0};
    for (unsigned start = 0; start < %(served)d; start += span) {
        unsigned load[%(banks)d] = {}, busiest = 0, all = 0;
        unsigned long long met[%(served)d * %(words)d] = {};
        for (unsigned k = start; k < start + span && k < %(served)d; ++k)
            for (unsigned i = 0; active[order[k]] && i < %(words)d; ++i) {
                const unsigned long long word = address[order[k]] / %(bank_bytes)d + i;
                bool again = false;
                for (unsigned j = 0; %(broadcast)s && j < all && !again; ++j) again = met[j] == word;
                if (again) continue;
                met[all++] = word;
                const unsigned busy = ++load[word %% %(banks)d];
                busiest = busy > busiest ? busy : busiest;
            }
        sum.total += busiest;
        sum.ideal += all == 0 ? 0 : %(broadcast)s ? 1 : (all + %(banks)d - 1) / %(banks)d;
    }
    if (sum.total != 0) {
        sum.total += %(bias)d;
        sum.ideal += %(bias)d;
    }
    return sum;
}
