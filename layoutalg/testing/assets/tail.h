// Names behind the text: TARGET is what is called, MODES the most coordinates that it may take.
static auto layoutalg_target = TARGET;
using layoutalg_call = layoutalg_table_::called<std::remove_cv_t<decltype(layoutalg_target)>>;
static_assert(!std::is_void_v<layoutalg_call>, "index code maps integers to one");
extern "C" int layoutalg_slots() { return layoutalg_call::count; }
extern "C" long long layoutalg_table(long long first, long long count, const long long* extents, int modes,
                                     int lead, long long volatile* at, long long* out) {
    long long x[MODES + 1];
    unsigned* thread[3] = {&threadIdx.x, &threadIdx.y, &threadIdx.z};
    unsigned* block[3] = {&blockDim.x, &blockDim.y, &blockDim.z};
    for (int m = 0; m < lead; ++m) *block[m] = static_cast<unsigned>(extents[m]);
    for (long long i = 0; i < count; ++i) {
        long long rest = first + i;
        *at = rest + 1;
        for (int m = 0; m + 1 < modes; ++m) { x[m] = rest % extents[m]; rest /= extents[m]; }
        if (modes) x[modes - 1] = rest;
        for (int m = 0; m < lead; ++m) *thread[m] = static_cast<unsigned>(x[m]);
        const int bad = layoutalg_call::at(layoutalg_target, x + lead, out + i);
        if (bad) return bad == 1 ? first + i : -2 - (first + i);
    }
    return -1;
}
