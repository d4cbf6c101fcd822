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
template <unsigned N, class Group> LAYOUTALG_DEVICE thread_block_tile<N, Group> tiled_partition(const Group& group) {
    return thread_block_tile<N, Group>(group.thread_rank() / N, (group.num_threads() + N - 1) / N);
}
template <class Group> LAYOUTALG_DEVICE thread_group tiled_partition(const Group& group, unsigned size) {
    return thread_group(group.thread_rank() % size, size);
}
template <class Group> LAYOUTALG_DEVICE void sync(const Group& group) { group.sync(); }
template <class Group> LAYOUTALG_DEVICE void wait(const Group& group) { group.sync(); }
template <unsigned N, class Group> LAYOUTALG_DEVICE void wait_prior(const Group& group) { group.sync(); }
template <class Group> LAYOUTALG_DEVICE unsigned thread_rank(const Group& group) { return group.thread_rank(); }
template <class Group> LAYOUTALG_DEVICE unsigned group_size(const Group& group) { return group.num_threads(); }
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
