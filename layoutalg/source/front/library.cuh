// What functions of CUDA's headers do, as far as accesses and numbers depend on it: read like a user's own.
// Sources: CUDA C++ Programming Guide, "Cooperative Groups", "Asynchronous Data Copies"; the headers
// cooperative_groups/details/async.h and cuda/__memcpy_async, by which groups divide their copies.

#define LAYOUTALG_DEVICE __device__ __forceinline__
LAYOUTALG_DEVICE int abs(int x) { return x < 0 ? -x : x; }
LAYOUTALG_DEVICE long abs(long x) { return x < 0 ? -x : x; }
LAYOUTALG_DEVICE long long abs(long long x) { return x < 0 ? -x : x; }
__device__ float abs(float);
__device__ double abs(double);
LAYOUTALG_DEVICE unsigned umin(unsigned a, unsigned b) { return b < a ? b : a; }
LAYOUTALG_DEVICE unsigned umax(unsigned a, unsigned b) { return a < b ? b : a; }
LAYOUTALG_DEVICE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
LAYOUTALG_DEVICE int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
LAYOUTALG_DEVICE unsigned __brev(unsigned x) {
    unsigned y = 0;
    for (int n = 0; n < 32; ++n) y += (x >> n & 1) << (31 - n);
    return y;
}
LAYOUTALG_DEVICE int __popc(unsigned x) {
    int bits = 0;
    for (int n = 0; n < 32; ++n) bits += x >> n & 1;
    return bits;
}
LAYOUTALG_DEVICE int __clz(int x) {
    int zeros = 32;
    for (int n = 0; n < 32; ++n) zeros -= ((unsigned)x >> n) != 0;
    return zeros;
}
LAYOUTALG_DEVICE int __ffs(int x) {
    int first = 0;
    for (int n = 31; n >= 0; --n) first = x >> n & 1 ? n + 1 : first;
    return first;
}

#define LAYOUTALG_FETCH(name) \
    template <class T, class... Place> __device__ T tex##name(cudaTextureObject_t, Place...); \
    template <class T, class... Place> __device__ void tex##name(T*, cudaTextureObject_t, Place...); \
    template <class T, class... Place> __device__ T tex##name##Lod(cudaTextureObject_t, Place...); \
    template <class T, class... Place> __device__ T tex##name##Grad(cudaTextureObject_t, Place...); \
    template <class T, class... Place> __device__ T surf##name##read(cudaSurfaceObject_t, Place...); \
    template <class T, class... Place> __device__ void surf##name##read(T*, cudaSurfaceObject_t, Place...); \
    template <class T, class... Place> __device__ void surf##name##write(T, cudaSurfaceObject_t, Place...);
LAYOUTALG_FETCH(1D) LAYOUTALG_FETCH(2D) LAYOUTALG_FETCH(3D) LAYOUTALG_FETCH(1DLayered)
LAYOUTALG_FETCH(2DLayered) LAYOUTALG_FETCH(Cubemap) LAYOUTALG_FETCH(CubemapLayered) LAYOUTALG_FETCH(1Dfetch)
LAYOUTALG_FETCH(2Dgather)

namespace std {
template <class T> LAYOUTALG_DEVICE constexpr remove_reference_t<T>&& move(T&& x) {
    return static_cast<remove_reference_t<T>&&>(x);
}
template <class T> LAYOUTALG_DEVICE constexpr T&& forward(remove_reference_t<T>& x) {
    return static_cast<T&&>(x);
}
template <class T> LAYOUTALG_DEVICE void swap(T& a, T& b) {
    T kept = a;
    a = b;
    b = kept;
}
}

namespace cooperative_groups {
struct thread_block {
    LAYOUTALG_DEVICE static void sync() { __syncthreads(); }
    LAYOUTALG_DEVICE static void barrier_arrive() { __syncthreads(); }
    LAYOUTALG_DEVICE static void barrier_wait() { __syncthreads(); }
    LAYOUTALG_DEVICE static unsigned thread_rank() {
        return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    }
    LAYOUTALG_DEVICE static unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
    LAYOUTALG_DEVICE static unsigned size() { return num_threads(); }
    LAYOUTALG_DEVICE static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    LAYOUTALG_DEVICE static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    LAYOUTALG_DEVICE static dim3 dim_threads() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
    LAYOUTALG_DEVICE static dim3 group_dim() { return dim_threads(); }
};
struct grid_group {
    LAYOUTALG_DEVICE static void sync() { __syncthreads(); }
    LAYOUTALG_DEVICE static bool is_valid() { return true; }
    LAYOUTALG_DEVICE static unsigned long long block_rank() {
        return (unsigned long long)(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    }
    LAYOUTALG_DEVICE static unsigned long long thread_rank() {
        return block_rank() * thread_block::num_threads() + thread_block::thread_rank();
    }
    LAYOUTALG_DEVICE static unsigned long long num_blocks() {
        return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
    }
    LAYOUTALG_DEVICE static unsigned long long num_threads() {
        return num_blocks() * thread_block::num_threads();
    }
    LAYOUTALG_DEVICE static unsigned long long size() { return num_threads(); }
    LAYOUTALG_DEVICE static dim3 block_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    LAYOUTALG_DEVICE static dim3 dim_blocks() { return dim3(gridDim.x, gridDim.y, gridDim.z); }
    LAYOUTALG_DEVICE static dim3 group_dim() { return dim_blocks(); }
};
#define LAYOUTALG_EXCHANGE /* what threads of a group tell each other is not known */ \
    template <class T> __device__ T shfl(T, int) const; \
    template <class T> __device__ T shfl_up(T, int) const; \
    template <class T> __device__ T shfl_down(T, int) const; \
    template <class T> __device__ T shfl_xor(T, int) const; \
    template <class T> __device__ unsigned match_any(T) const; \
    template <class T> __device__ unsigned match_all(T, int&) const; \
    __device__ unsigned ballot(int) const; \
    __device__ int any(int) const; \
    __device__ int all(int) const;
struct thread_group {
    unsigned layoutalg_rank, layoutalg_size;
    LAYOUTALG_DEVICE thread_group(unsigned rank, unsigned size)
        : layoutalg_rank(rank), layoutalg_size(size) {}
    template <class Group> LAYOUTALG_DEVICE thread_group(const Group& group)
        : layoutalg_rank(group.thread_rank()), layoutalg_size(group.num_threads()) {}
    LAYOUTALG_DEVICE void sync() const { __syncthreads(); }
    LAYOUTALG_DEVICE unsigned thread_rank() const { return layoutalg_rank; }
    LAYOUTALG_DEVICE unsigned num_threads() const { return layoutalg_size; }
    LAYOUTALG_DEVICE unsigned size() const { return layoutalg_size; }
};
struct coalesced_group {
    LAYOUTALG_EXCHANGE
    LAYOUTALG_DEVICE void sync() const { __syncwarp(); }
    __device__ unsigned thread_rank() const;
    __device__ unsigned num_threads() const;
    __device__ unsigned size() const;
    __device__ unsigned meta_group_rank() const;
    __device__ unsigned meta_group_size() const;
};
template <unsigned N, class Parent = void> struct thread_block_tile {
    LAYOUTALG_EXCHANGE
    unsigned layoutalg_group, layoutalg_groups;
    LAYOUTALG_DEVICE thread_block_tile(unsigned group, unsigned groups)
        : layoutalg_group(group), layoutalg_groups(groups) {}
    template <class Other> LAYOUTALG_DEVICE thread_block_tile(const thread_block_tile<N, Other>& other)
        : layoutalg_group(other.layoutalg_group), layoutalg_groups(other.layoutalg_groups) {}
    LAYOUTALG_DEVICE static void sync() { __syncwarp(); }
    LAYOUTALG_DEVICE static unsigned thread_rank() { return thread_block::thread_rank() % N; }
    LAYOUTALG_DEVICE static constexpr unsigned num_threads() { return N; }
    LAYOUTALG_DEVICE static constexpr unsigned size() { return N; }
    LAYOUTALG_DEVICE unsigned meta_group_rank() const { return layoutalg_group; }
    LAYOUTALG_DEVICE unsigned meta_group_size() const { return layoutalg_groups; }
};
__device__ unsigned long long __mapa(int);  // in the memory of another block
struct cluster_group {
    LAYOUTALG_DEVICE static void sync() { __syncthreads(); }
    LAYOUTALG_DEVICE static void barrier_arrive() { __syncthreads(); }
    LAYOUTALG_DEVICE static void barrier_wait() { __syncthreads(); }
    __device__ static unsigned thread_rank();
    __device__ static unsigned block_rank();
    __device__ static unsigned num_threads();
    __device__ static unsigned num_blocks();
    __device__ static dim3 block_index();
    __device__ static dim3 dim_blocks();
    template <class T> LAYOUTALG_DEVICE static T* map_shared_rank(T*, int rank) { return (T*)__mapa(rank); }
    template <class T> LAYOUTALG_DEVICE static unsigned query_shared_rank(const T*) { return __mapa(0); }
};
LAYOUTALG_DEVICE thread_block this_thread_block() { return thread_block(); }
LAYOUTALG_DEVICE grid_group this_grid() { return grid_group(); }
LAYOUTALG_DEVICE cluster_group this_cluster() { return cluster_group(); }
__device__ coalesced_group coalesced_threads();
template <class Group> __device__ coalesced_group binary_partition(const Group&, bool);
template <class Group, class T> __device__ coalesced_group labeled_partition(const Group&, T);
template <unsigned N, class Group>
LAYOUTALG_DEVICE thread_block_tile<N, Group> tiled_partition(const Group& group) {
    return thread_block_tile<N, Group>(group.thread_rank() / N, (group.num_threads() + N - 1) / N);
}
template <class Group> LAYOUTALG_DEVICE thread_group tiled_partition(const Group& group, unsigned size) {
    return thread_group(group.thread_rank() % size, size);
}
template <class Group> LAYOUTALG_DEVICE void sync(const Group& group) { group.sync(); }
template <class Group> LAYOUTALG_DEVICE void wait(const Group& group) { group.sync(); }
template <unsigned N, class Group> LAYOUTALG_DEVICE void wait_prior(const Group& group) { group.sync(); }
template <class Group> LAYOUTALG_DEVICE unsigned thread_rank(const Group& group) {
    return group.thread_rank();
}
template <class Group> LAYOUTALG_DEVICE unsigned group_size(const Group& group) {
    return group.num_threads();
}
#define LAYOUTALG_OPERATION(name) template <class T = void> struct name { \
    template <class A, class B> __device__ A operator()(A, B) const; };
LAYOUTALG_OPERATION(plus) LAYOUTALG_OPERATION(less) LAYOUTALG_OPERATION(greater)
LAYOUTALG_OPERATION(bit_and) LAYOUTALG_OPERATION(bit_or) LAYOUTALG_OPERATION(bit_xor)
template <class Group, class T, class Operation> __device__ T reduce(const Group&, T, Operation);
template <class Group, class T, class Operation> __device__ T inclusive_scan(const Group&, T, Operation);
template <class Group, class T, class Operation> __device__ T exclusive_scan(const Group&, T, Operation);
template <class Group, class T> __device__ T inclusive_scan(const Group&, T);
template <class Group, class T> __device__ T exclusive_scan(const Group&, T);
}

__device__ void cp_async_bulk(void*, const void*, size_t);

// --- copies of groups -------------------------------------------------------------------------------------

// The widest piece that a group moves at once; what is left behind whole pieces is not moved.
template <class Piece, class Group>
LAYOUTALG_DEVICE void layoutalg_move(const Group& group, char* to, const char* from, size_t bytes) {
    for (size_t i = group.thread_rank() * sizeof(Piece); i + sizeof(Piece) <= bytes;
         i += group.num_threads() * sizeof(Piece)) {
        if (sizeof(Piece) >= 4 && __isShared(to) && __isGlobal(from))
            __pipeline_memcpy_async(to + i, from + i, sizeof(Piece));
        else
            *(Piece*)(to + i) = *(const Piece*)(from + i);
    }
}
template <size_t Align, class Group>
LAYOUTALG_DEVICE void layoutalg_copy(const Group& group, char* to, const char* from, size_t bytes) {
    if constexpr (Align >= 16) layoutalg_move<int4>(group, to, from, bytes);
    else if constexpr (Align == 8) layoutalg_move<int2>(group, to, from, bytes);
    else if constexpr (Align == 4) layoutalg_move<int>(group, to, from, bytes);
    else if constexpr (Align == 2) layoutalg_move<short>(group, to, from, bytes);
    else layoutalg_move<char>(group, to, from, bytes);
}
template <class T> inline constexpr size_t layoutalg_align = alignof(T);
template <> inline constexpr size_t layoutalg_align<void> = 1;

namespace cuda {
namespace std { using namespace ::std; }
template <size_t Align> struct aligned_size_t {
    static constexpr size_t align = Align;
    size_t value;
    LAYOUTALG_DEVICE constexpr explicit aligned_size_t(size_t bytes) : value(bytes) {}
    LAYOUTALG_DEVICE constexpr operator size_t() const { return value; }
};
}
template <class Size> inline constexpr size_t layoutalg_align_of_size = 1;
template <size_t Align> inline constexpr size_t layoutalg_align_of_size<cuda::aligned_size_t<Align>> = Align;

namespace cooperative_groups {
// Pieces of 1 or 2 bytes become wider ones where both addresses allow it; all of a copy is moved.
template <class Group>
LAYOUTALG_DEVICE void layoutalg_widest(const Group& group, char* to, const char* from, size_t bytes,
                                       size_t least) {
    size_t apart = (size_t)to & 15 ^ (size_t)from & 15;
    size_t piece = apart & 1 ? 1 : apart & 2 ? 2 : apart & 4 ? 4 : apart & 8 ? 8 : 16;
    if (bytes < piece) piece = least;
    if (piece < 4) return piece == 2 ? layoutalg_copy<2>(group, to, from, bytes)
                                     : layoutalg_copy<1>(group, to, from, bytes);
    size_t before = -((size_t)from & 15) & (piece - 1), pieces = (bytes - before) / piece * piece;
    layoutalg_copy<1>(group, to, from, before);
    if (piece == 4) layoutalg_copy<4>(group, to + before, from + before, pieces);
    else if (piece == 8) layoutalg_copy<8>(group, to + before, from + before, pieces);
    else layoutalg_copy<16>(group, to + before, from + before, pieces);
    before += pieces;
    layoutalg_copy<1>(group, to + before, from + before, bytes - before);
}
template <class Group, class T, class Size>
LAYOUTALG_DEVICE void memcpy_async(const Group& group, T* to, const T* from, const Size& bytes) {
    constexpr size_t hint = layoutalg_align_of_size<Size>, align = hint > 1 ? hint : layoutalg_align<T>;
    if constexpr (align >= 4) layoutalg_copy<align>(group, (char*)to, (const char*)from, bytes);
    else layoutalg_widest(group, (char*)to, (const char*)from, bytes, align);
}
template <class Group, class T, class To, class From>
LAYOUTALG_DEVICE void memcpy_async(const Group& group, T* to, const To& room, const T* from,
                                   const From& there) {
    size_t count = (size_t)room < (size_t)there ? (size_t)room : (size_t)there;
    memcpy_async(group, to, from, cuda::aligned_size_t<alignof(T)>(count * sizeof(T)));
}
}

// --- barriers and pipelines, which order accesses and are none ---------------------------------------------

namespace cuda {
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };
enum class pipeline_role { producer, consumer };
struct layoutalg_alone {
    LAYOUTALG_DEVICE static unsigned thread_rank() { return 0; }
    LAYOUTALG_DEVICE static unsigned num_threads() { return 1; }
};
template <thread_scope Scope, class Completion = void> struct barrier {
    unsigned long long layoutalg_state;
    using arrival_token = unsigned long long;
    barrier() = default;
    LAYOUTALG_DEVICE barrier(ptrdiff_t) {}
    LAYOUTALG_DEVICE arrival_token arrive(ptrdiff_t = 1) { __syncwarp(); return 0; }
    LAYOUTALG_DEVICE void wait(arrival_token) const { __syncthreads(); }
    LAYOUTALG_DEVICE void wait_parity(bool) const { __syncthreads(); }
    LAYOUTALG_DEVICE void arrive_and_wait() { __syncthreads(); }
    LAYOUTALG_DEVICE void arrive_and_drop() { __syncwarp(); }
    LAYOUTALG_DEVICE static constexpr ptrdiff_t max() { return 1048575; }
};
template <thread_scope Scope> LAYOUTALG_DEVICE void init(barrier<Scope>*, ptrdiff_t) { __syncwarp(); }
template <thread_scope Scope, unsigned char Stages> struct pipeline_shared_state {
    unsigned long long layoutalg_state[2 * Stages];
};
template <thread_scope Scope> struct pipeline {
    LAYOUTALG_DEVICE void producer_acquire() { __syncthreads(); }
    LAYOUTALG_DEVICE void producer_commit() { __syncwarp(); }
    LAYOUTALG_DEVICE void consumer_wait() { __syncthreads(); }
    LAYOUTALG_DEVICE void consumer_release() { __syncwarp(); }
    LAYOUTALG_DEVICE bool quit() { return true; }
};
LAYOUTALG_DEVICE pipeline<thread_scope_thread> make_pipeline() { return pipeline<thread_scope_thread>(); }
template <class Group, thread_scope Scope, unsigned char Stages, class... Role>
LAYOUTALG_DEVICE pipeline<Scope> make_pipeline(const Group&, pipeline_shared_state<Scope, Stages>*, Role...) {
    return pipeline<Scope>();
}
template <unsigned char N, thread_scope Scope>
LAYOUTALG_DEVICE void pipeline_consumer_wait_prior(pipeline<Scope>&) { __syncthreads(); }
template <class Order> inline constexpr bool layoutalg_takes_bulk = false;
#if __CUDA_ARCH__ >= 900
template <> inline constexpr bool layoutalg_takes_bulk<barrier<thread_scope_block>> = true;
#endif
template <class Group, class T, class Size, class Order>
LAYOUTALG_DEVICE void layoutalg_copy(const Group& group, T* to, const T* from, Size bytes, Order& order) {
    constexpr size_t hint = layoutalg_align_of_size<Size>, own = layoutalg_align<T>;
    constexpr size_t align = hint > own ? hint : own;
    bool bulk = align >= 16 && layoutalg_takes_bulk<Order> && __isShared(&order);
    if (bulk && __isShared(to) && __isGlobal(from)) {
        if (group.thread_rank() == 0) cp_async_bulk(to, from, bytes);
    } else ::layoutalg_copy<align>(group, (char*)to, (const char*)from, bytes);
}
#define LAYOUTALG_COPIES(order) \
    template <class T, class Size, thread_scope Scope> \
    LAYOUTALG_DEVICE void memcpy_async(T* to, const T* from, Size bytes, order& ordered) { \
        layoutalg_copy(layoutalg_alone(), to, from, bytes, ordered); \
    } \
    template <class Group, class T, class Size, thread_scope Scope> \
    LAYOUTALG_DEVICE void memcpy_async(const Group& group, T* to, const T* from, Size bytes, \
                                       order& ordered) { \
        layoutalg_copy(group, to, from, bytes, ordered); \
    }
LAYOUTALG_COPIES(barrier<Scope>) LAYOUTALG_COPIES(pipeline<Scope>)
namespace device { using cuda::memcpy_async; }
enum memory_order {
    memory_order_relaxed, memory_order_consume, memory_order_acquire, memory_order_release,
    memory_order_acq_rel, memory_order_seq_cst
};
#define LAYOUTALG_FETCH_AND(name, atomic) \
    LAYOUTALG_DEVICE T fetch_##name(T x, memory_order = memory_order_seq_cst) const { \
        return atomic(place(), x); \
    }
#define LAYOUTALG_ATOMIC \
    LAYOUTALG_FETCH_AND(add, atomicAdd) LAYOUTALG_FETCH_AND(sub, atomicSub) \
    LAYOUTALG_FETCH_AND(min, atomicMin) LAYOUTALG_FETCH_AND(max, atomicMax) \
    LAYOUTALG_FETCH_AND(and, atomicAnd) LAYOUTALG_FETCH_AND(or, atomicOr) \
    LAYOUTALG_FETCH_AND(xor, atomicXor) \
    LAYOUTALG_DEVICE T exchange(T x, memory_order = memory_order_seq_cst) const { \
        return atomicExch(place(), x); \
    } \
    LAYOUTALG_DEVICE T load(memory_order = memory_order_seq_cst) const { return *place(); } \
    LAYOUTALG_DEVICE void store(T x, memory_order = memory_order_seq_cst) const { *place() = x; }
template <class T, thread_scope Scope = thread_scope_system> struct atomic_ref {
    T* layoutalg_at;
    LAYOUTALG_DEVICE atomic_ref(T& x) : layoutalg_at(&x) {}
    LAYOUTALG_DEVICE T* place() const { return layoutalg_at; }
    LAYOUTALG_ATOMIC
};
template <class T, thread_scope Scope = thread_scope_system> struct atomic {
    T layoutalg_value;
    LAYOUTALG_DEVICE T* place() const { return (T*)&layoutalg_value; }
    LAYOUTALG_ATOMIC
};
}
