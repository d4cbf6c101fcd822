// What functions of CUB do, as far as accesses and numbers depend on it: read where its headers are missing.
// Loads and stores of global memory are those that its documentation states for each algorithm; how threads
// exchange values in shared memory depends on its version, so that the storage is named and nothing is counted.
// Source: CUB, "BlockLoadAlgorithm", "BlockStoreAlgorithm", "WarpReduce", "Block-wide collectives".

struct alignas(16) layoutalg_unsized { char layoutalg_bytes; };
template <class T = void, class Storage, class... Given>
__device__ T cub_exchange(Storage*, Given&&...);
template <class T, class... Given> __device__ T cub_given(Given&&...);

namespace cub {
enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE, BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};
enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};
enum BlockReduceAlgorithm {
    BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS
};
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum CacheLoadModifier { LOAD_DEFAULT, LOAD_CA, LOAD_CG, LOAD_CS, LOAD_CV, LOAD_LDG, LOAD_VOLATILE };
enum CacheStoreModifier { STORE_DEFAULT, STORE_WB, STORE_CG, STORE_CS, STORE_WT, STORE_VOLATILE };
template <class Key, class Value> struct KeyValuePair { Key key; Value value; };
#define LAYOUTALG_FUNCTOR(name, result) struct name { \
    template <class A, class B> LAYOUTALG_DEVICE constexpr auto operator()(A a, B b) const { return result; } };
LAYOUTALG_FUNCTOR(Sum, a + b) LAYOUTALG_FUNCTOR(Max, a < b ? b : a) LAYOUTALG_FUNCTOR(Min, b < a ? b : a)
LAYOUTALG_FUNCTOR(Equality, a == b) LAYOUTALG_FUNCTOR(Inequality, a != b)
LAYOUTALG_FUNCTOR(ArgMax, (b.value > a.value || (a.value == b.value && b.key < a.key)) ? b : a)
LAYOUTALG_FUNCTOR(ArgMin, (b.value < a.value || (a.value == b.value && b.key < a.key)) ? b : a)
LAYOUTALG_DEVICE unsigned LaneId() { return cooperative_groups::thread_block::thread_rank() % 32; }
template <CacheLoadModifier M, class Place> LAYOUTALG_DEVICE auto ThreadLoad(Place place) { return *place; }
template <CacheStoreModifier M, class Place, class T> LAYOUTALG_DEVICE void ThreadStore(Place place, T x) {
    *place = x;
}

// The element of a tile that a thread moves as its i-th: blocked, dealt to the block, dealt to each warp.
template <int N> LAYOUTALG_DEVICE int layoutalg_dealt(int how, int thread, int i, int threads) {
    return how == 0 ? thread * N + i
         : how == 1 ? i * threads + thread : thread / 32 * 32 * N + i * 32 + thread % 32;
}
template <int How, class T, int N, class Place>
LAYOUTALG_DEVICE void layoutalg_load(int thread, int threads, Place from, T (&items)[N]) {
    for (int i = 0; i < N; ++i) items[i] = from[layoutalg_dealt<N>(How, thread, i, threads)];
}
template <int How, class T, int N, class Place>
LAYOUTALG_DEVICE void layoutalg_load(int thread, int threads, Place from, T (&items)[N], int valid) {
    for (int i = 0; i < N; ++i)
        if (layoutalg_dealt<N>(How, thread, i, threads) < valid)
            items[i] = from[layoutalg_dealt<N>(How, thread, i, threads)];
}
template <int How, class T, int N, class Place>
LAYOUTALG_DEVICE void layoutalg_store(int thread, int threads, Place to, T (&items)[N]) {
    for (int i = 0; i < N; ++i) to[layoutalg_dealt<N>(How, thread, i, threads)] = items[i];
}
template <int How, class T, int N, class Place>
LAYOUTALG_DEVICE void layoutalg_store(int thread, int threads, Place to, T (&items)[N], int valid) {
    for (int i = 0; i < N; ++i)
        if (layoutalg_dealt<N>(How, thread, i, threads) < valid)
            to[layoutalg_dealt<N>(How, thread, i, threads)] = items[i];
}
template <class T, int N> struct alignas(sizeof(T) * N) layoutalg_vector { T elements[N]; };
template <int N> inline constexpr int layoutalg_lanes = N % 4 == 0 ? 4 : N == 2 ? 2 : 1;
#define LAYOUTALG_DIRECT(How, Name) \
    template <class T, int N, class Place, class... Rest> \
    LAYOUTALG_DEVICE void LoadDirect##Name(int thread, Place from, T (&items)[N], Rest... rest) { \
        layoutalg_load<How>(thread, 0, from, items, rest...); \
    } \
    template <class T, int N, class Place, class... Rest> \
    LAYOUTALG_DEVICE void StoreDirect##Name(int thread, Place to, T (&items)[N], Rest... rest) { \
        layoutalg_store<How>(thread, 0, to, items, rest...); \
    }
LAYOUTALG_DIRECT(0, Blocked) LAYOUTALG_DIRECT(2, WarpStriped)
template <int Threads, class T, int N, class Place, class... Rest>
LAYOUTALG_DEVICE void LoadDirectStriped(int thread, Place from, T (&items)[N], Rest... rest) {
    layoutalg_load<1>(thread, Threads, from, items, rest...);
}
template <int Threads, class T, int N, class Place, class... Rest>
LAYOUTALG_DEVICE void StoreDirectStriped(int thread, Place to, T (&items)[N], Rest... rest) {
    layoutalg_store<1>(thread, Threads, to, items, rest...);
}

#define LAYOUTALG_STORED(name) /* a collective in storage that is given, or in its own */ \
    struct TempStorage { layoutalg_unsized layoutalg_storage; }; \
    TempStorage* layoutalg_at; \
    LAYOUTALG_DEVICE static TempStorage* layoutalg_own() { __shared__ TempStorage own; return &own; } \
    LAYOUTALG_DEVICE name() : layoutalg_at(layoutalg_own()) {} \
    LAYOUTALG_DEVICE name(TempStorage& storage) : layoutalg_at(&storage) {}
template <class T, int X, int N, BlockLoadAlgorithm How = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1>
struct BlockLoad {
    LAYOUTALG_STORED(BlockLoad)
    template <class Place> LAYOUTALG_DEVICE void Load(Place from, T (&items)[N]) {
        constexpr int lanes = layoutalg_lanes<N>;
        unsigned thread = cooperative_groups::thread_block::thread_rank();
        if constexpr (How == BLOCK_LOAD_VECTORIZE && sizeof(T) * lanes <= 16 && __is_pointer(Place)) {
            using Vector = layoutalg_vector<T, lanes>;
            for (int i = 0; i < N / lanes; ++i)
                ((Vector*)items)[i] = ((const Vector*)from)[thread * (N / lanes) + i];
        } else if constexpr (How == BLOCK_LOAD_VECTORIZE) {
            cub_exchange(from);
            for (int i = 0; i < N; ++i) items[i] = cub_given<T>();
        } else dealt(from, items);
    }
    template <class Place> LAYOUTALG_DEVICE void Load(Place from, T (&items)[N], int valid) {
        dealt(from, items, valid);
    }
    template <class Place, class Other>
    LAYOUTALG_DEVICE void Load(Place from, T (&items)[N], int valid, Other rest) {
        for (int i = 0; i < N; ++i) items[i] = rest;
        dealt(from, items, valid);
    }
    template <class Place, class... Valid>
    LAYOUTALG_DEVICE void dealt(Place from, T (&items)[N], Valid... valid) {
        constexpr int how = How == BLOCK_LOAD_DIRECT || How == BLOCK_LOAD_VECTORIZE ? 0 : How <= 3 ? 1 : 2;
        layoutalg_load<how>(cooperative_groups::thread_block::thread_rank(), X * Y * Z, from, items, valid...);
        if constexpr (How >= BLOCK_LOAD_TRANSPOSE) {
            cub_exchange(layoutalg_at);
            for (int i = 0; i < N; ++i) items[i] = cub_given<T>();
        }
    }
};
template <class T, int X, int N, BlockStoreAlgorithm How = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1>
struct BlockStore {
    LAYOUTALG_STORED(BlockStore)
    template <class Place> LAYOUTALG_DEVICE void Store(Place to, T (&items)[N]) {
        constexpr int lanes = layoutalg_lanes<N>;
        unsigned thread = cooperative_groups::thread_block::thread_rank();
        if constexpr (How == BLOCK_STORE_VECTORIZE && sizeof(T) * lanes <= 16 && __is_pointer(Place)) {
            using Vector = layoutalg_vector<T, lanes>;
            for (int i = 0; i < N / lanes; ++i) ((Vector*)to)[thread * (N / lanes) + i] = ((Vector*)items)[i];
        } else if constexpr (How == BLOCK_STORE_VECTORIZE) cub_exchange(to);
        else dealt(to, items);
    }
    template <class Place> LAYOUTALG_DEVICE void Store(Place to, T (&items)[N], int valid) {
        dealt(to, items, valid);
    }
    template <class Place, class... Valid>
    LAYOUTALG_DEVICE void dealt(Place to, T (&items)[N], Valid... valid) {
        constexpr int how = How == BLOCK_STORE_DIRECT || How == BLOCK_STORE_VECTORIZE ? 0 : How <= 3 ? 1 : 2;
        if constexpr (How >= BLOCK_STORE_TRANSPOSE) {
            cub_exchange(layoutalg_at);
            for (int i = 0; i < N; ++i) items[i] = cub_given<T>();
        }
        layoutalg_store<how>(cooperative_groups::thread_block::thread_rank(), X * Y * Z, to, items, valid...);
    }
};

#define LAYOUTALG_REDUCTIONS \
    template <class... R> LAYOUTALG_DEVICE T Sum(T, R... rest) { return exchanged(rest...); } \
    template <class O, class... R> LAYOUTALG_DEVICE T Reduce(T, O, R... rest) { return exchanged(rest...); } \
    template <int N, class... R> LAYOUTALG_DEVICE T Sum(T (&)[N], R... rest) { return exchanged(rest...); } \
    template <int N, class O, class... R> LAYOUTALG_DEVICE T Reduce(T (&)[N], O, R... rest) { \
        return exchanged(rest...); \
    }
#define LAYOUTALG_SCAN(name) \
    template <class... R> LAYOUTALG_DEVICE void name(T, T& out, R&&... rest) { out = exchanged(rest...); } \
    template <int N, class... R> LAYOUTALG_DEVICE void name(T (&)[N], T (&out)[N], R&&... rest) { \
        for (int i = 0; i < N; ++i) out[i] = exchanged(rest...); \
    }
#define LAYOUTALG_SCANS \
    LAYOUTALG_SCAN(InclusiveSum) LAYOUTALG_SCAN(ExclusiveSum) \
    LAYOUTALG_SCAN(InclusiveScan) LAYOUTALG_SCAN(ExclusiveScan)
#define LAYOUTALG_BLOCK template <class... Rest> LAYOUTALG_DEVICE T exchanged(Rest&&... rest) { \
        return cub_exchange<T>(layoutalg_at, rest...); \
    }
#define LAYOUTALG_WARP /* of a power of two lanes it is shuffles */ \
    template <class... Rest> LAYOUTALG_DEVICE T exchanged(Rest&&... rest) { \
        if constexpr ((Lanes & (Lanes - 1)) == 0) return cub_given<T>(rest...); \
        else return cub_exchange<T>(layoutalg_at, rest...); \
    }
#define LAYOUTALG_ARRANGED(name) /* all elements of the block in another order */ \
    template <class Out, class... Ranks> LAYOUTALG_DEVICE void name(T (&)[N], Out (&out)[N], Ranks&&... ranks) { \
        cub_exchange(layoutalg_at, ranks...); \
        for (int i = 0; i < N; ++i) out[i] = cub_given<T>(ranks...); \
    } \
    LAYOUTALG_DEVICE void name(T (&items)[N]) { name(items, items); }
template <class T, int X, int N, bool Sliced = false, int Y = 1, int Z = 1>
struct BlockExchange {
    LAYOUTALG_STORED(BlockExchange)
    LAYOUTALG_ARRANGED(StripedToBlocked) LAYOUTALG_ARRANGED(BlockedToStriped)
    LAYOUTALG_ARRANGED(WarpStripedToBlocked) LAYOUTALG_ARRANGED(BlockedToWarpStriped)
    LAYOUTALG_ARRANGED(ScatterToBlocked) LAYOUTALG_ARRANGED(ScatterToStriped)
};
template <class T, int X, BlockReduceAlgorithm How = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1>
struct BlockReduce { LAYOUTALG_STORED(BlockReduce) LAYOUTALG_BLOCK LAYOUTALG_REDUCTIONS };
template <class T, int X, BlockScanAlgorithm How = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1>
struct BlockScan { LAYOUTALG_STORED(BlockScan) LAYOUTALG_BLOCK LAYOUTALG_SCANS };
template <class T, int Lanes = 32>
struct WarpReduce { LAYOUTALG_STORED(WarpReduce) LAYOUTALG_WARP LAYOUTALG_REDUCTIONS };
template <class T, int Lanes = 32>
struct WarpScan { LAYOUTALG_STORED(WarpScan) LAYOUTALG_WARP LAYOUTALG_SCANS };

// What a scan of one's own is made of.
#define CUB_WARP_THREADS(unused) 32
#define CUB_PTX_WARP_THREADS 32
template <int N> struct Log2 { enum { VALUE = 1 + Log2<(N + 1) / 2>::VALUE }; };
template <> struct Log2<1> { enum { VALUE = 0 }; };
template <class T> struct Uninitialized {
    T layoutalg_storage;
    LAYOUTALG_DEVICE T& Alias() { return layoutalg_storage; }
};
LAYOUTALG_DEVICE int RowMajorTid(int x, int y, int) {
    return (threadIdx.z * y + threadIdx.y) * x + threadIdx.x;
}
template <int Lanes> LAYOUTALG_DEVICE unsigned WarpMask(unsigned warp) {
    return Lanes == 32 ? ~0u : ((1u << Lanes % 32) - 1) << warp * Lanes;
}
#define LAYOUTALG_SHUFFLE(name) template <int Lanes, class T, class... Rest> \
    LAYOUTALG_DEVICE T name(T, Rest... rest) { return cub_given<T>(rest...); }
LAYOUTALG_SHUFFLE(ShuffleIndex) LAYOUTALG_SHUFFLE(ShuffleUp) LAYOUTALG_SHUFFLE(ShuffleDown)
template <class T, int Threads> struct BlockRakingLayout {
    static constexpr int SHARED_ELEMENTS = Threads, MAX_RAKING_THREADS = Threads < 32 ? Threads : 32,
        SEGMENT_LENGTH = (Threads + MAX_RAKING_THREADS - 1) / MAX_RAKING_THREADS,
        RAKING_THREADS = (Threads + SEGMENT_LENGTH - 1) / SEGMENT_LENGTH,
        SEGMENT_PADDING = SEGMENT_LENGTH % 2 == 0 && SEGMENT_LENGTH > 2,
        GRID_ELEMENTS = RAKING_THREADS * (SEGMENT_LENGTH + SEGMENT_PADDING);
    static constexpr bool UNGUARDED = Threads % RAKING_THREADS == 0;
    struct TempStorage { T layoutalg_grid[GRID_ELEMENTS]; TempStorage& Alias() { return *this; } };
    LAYOUTALG_DEVICE static T* PlacementPtr(TempStorage& storage, unsigned thread) {
        return storage.layoutalg_grid + thread + (SEGMENT_PADDING ? thread / SEGMENT_LENGTH : 0);
    }
    LAYOUTALG_DEVICE static T* RakingPtr(TempStorage& storage, unsigned thread) {
        return storage.layoutalg_grid + thread * (SEGMENT_LENGTH + SEGMENT_PADDING);
    }
};
}
namespace cuda {
template <class T = void> struct maximum : cub::Max {};
template <class T = void> struct minimum : cub::Min {};
}
