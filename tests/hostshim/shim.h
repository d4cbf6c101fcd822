// CUDA C++ on the CPU: enough of the language to run a printed kernel, one fibre a thread.
//
// A block runs on one OS thread.  Every CUDA thread is a ucontext fibre that runs until it waits: at
// __syncthreads for its block, in a warp exchange for its warp.  When no fibre can go on and none can be
// released, the launch fails as a deadlock.  Shared memory starts poisoned in every block.  Faults (a guard
// page, undefined behaviour compiled to a trap: misaligned access, overflow, wild shift) end the launch with
// a message that names the thread; they never end the process.  No C++ header is included: a kernel compiles
// in half the time.
#pragma once
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __builtin_assume(fact)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

#define SHIM_VEC2(name, T) \
    struct alignas(2 * sizeof(T)) name { T x, y; }; \
    inline name make_##name(T x, T y) { return {x, y}; }
#define SHIM_VEC4(name, T) \
    struct alignas(sizeof(T) >= 4 ? 16 : 4 * sizeof(T)) name { T x, y, z, w; }; \
    inline name make_##name(T x, T y, T z, T w) { return {x, y, z, w}; }
SHIM_VEC2(char2, signed char) SHIM_VEC2(uchar2, unsigned char) SHIM_VEC2(short2, short)
SHIM_VEC2(ushort2, unsigned short) SHIM_VEC2(int2, int) SHIM_VEC2(uint2, unsigned) SHIM_VEC2(float2, float)
SHIM_VEC2(longlong2, long long) SHIM_VEC2(ulonglong2, unsigned long long) SHIM_VEC2(double2, double)
SHIM_VEC4(char4, signed char) SHIM_VEC4(uchar4, unsigned char) SHIM_VEC4(short4, short)
SHIM_VEC4(ushort4, unsigned short) SHIM_VEC4(int4, int) SHIM_VEC4(uint4, unsigned) SHIM_VEC4(float4, float)

struct uint3 { unsigned x, y, z; };
using dim3 = uint3;
static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
constexpr int warpSize = 32;
#define INFINITY __builtin_huge_valf()

namespace shim {

enum class State { ready, at_block_barrier, in_warp_exchange, done };

struct PendingCopy { void* to; const void* from; unsigned bytes, group; };

struct Fibre {
    ucontext_t context;
    State state;
    uint3 thread;
    unsigned lane, warp, mask, exchanges;
    PendingCopy* copies;  // started and not yet waited for, oldest first
    unsigned pending, room, group;
};

constexpr size_t stack_bytes = 64 << 10, slot_bytes = 96;
static Fibre* fibres;
static unsigned threads;
static char* slots;  // one exchange slot a thread and parity
static ucontext_t scheduler;
static Fibre* current;
static unsigned char *shared_base, *shared_end;  // from there on accesses trap
static unsigned shared_bytes;
static char message[512];
static void (*kernel_body)();

struct AllFibres { Fibre *begin() { return fibres; } Fibre *end() { return fibres + threads; } };
inline AllFibres all_fibres() { return {}; }

[[noreturn]] inline void fail(const char* what) {
    snprintf(message, sizeof message, "%s in block (%u,%u,%u) thread (%u,%u,%u)", what, blockIdx.x,
                  blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
    setcontext(&scheduler);
    __builtin_unreachable();
}

inline void wait(State state) {
    current->state = state;
    swapcontext(&current->context, &scheduler);
}

// Every lane of `mask` gives a value and gets everyone's.  Two parities: a lane may run one exchange ahead.
template <class T>
void exchange(unsigned mask, const T& mine, T (&all)[32]) {
    static_assert(sizeof(T) <= slot_bytes, "an exchanged value is at most 96 bytes");
    if (!(mask >> current->lane & 1)) fail("a warp operation whose mask leaves out the caller");
    const unsigned parity = current->exchanges++ & 1, first = current->warp * 32;
    auto slot = [&](unsigned thread) { return &slots[(2 * thread + parity) * slot_bytes]; };
    memcpy(slot(first + current->lane), &mine, sizeof(T));
    current->mask = mask;
    wait(State::in_warp_exchange);
    for (unsigned lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1) memcpy(&all[lane], slot(first + lane), sizeof(T));
}

inline void run_fibre() {
    kernel_body();
    current->state = State::done;
    setcontext(&scheduler);
}

inline bool release_warps() {
    bool any = false;
    for (size_t first = 0; first < threads; first += 32) {
        for (size_t i = first; i < threads && i < first + 32; ++i) {
            const unsigned mask = fibres[i].mask;
            unsigned arrived = 0;
            for (size_t j = first; j < threads && j < first + 32; ++j)
                if (fibres[j].state == State::in_warp_exchange && fibres[j].mask == mask)
                    arrived |= 1u << fibres[j].lane;
            if (fibres[i].state != State::in_warp_exchange || (arrived & mask) != mask) continue;
            for (size_t j = first; j < threads && j < first + 32; ++j)
                if (mask >> fibres[j].lane & 1) fibres[j].state = State::ready;
            any = true;
        }
    }
    return any;
}

// True when the block can go on; false when all are done.  Fails on a deadlock.
inline bool release() {
    if (release_warps()) return true;
    bool waiting = false;
    for (Fibre& f : all_fibres()) {
        threadIdx = f.thread;
        if (f.state == State::in_warp_exchange) fail("deadlock: a warp operation that others do not reach");
        waiting |= f.state == State::at_block_barrier;
    }
    for (Fibre& f : all_fibres())
        if (f.state == State::at_block_barrier) f.state = State::ready;
    return waiting;
}

constexpr unsigned char poison = 0xA5;

inline bool intact(const unsigned char* from, const unsigned char* to) {
    while (from != to && *from == poison) ++from;
    return from == to;
}

inline void run_block(unsigned char* stacks, bool reverse) {
    memset(shared_base, poison, shared_end - shared_base);
    for (unsigned t = 0; t < threads; ++t) {
        Fibre& f = fibres[t];
        f.state = State::ready;
        f.thread = {t % blockDim.x, t / blockDim.x % blockDim.y, t / (blockDim.x * blockDim.y)};
        f.lane = t % 32, f.warp = t / 32, f.exchanges = 0;
        f.pending = f.group = 0;
        getcontext(&f.context);
        f.context.uc_stack = {stacks + t * stack_bytes, 0, stack_bytes};
        makecontext(&f.context, run_fibre, 0);
    }
    do {
        for (size_t i = 0; i < threads; ++i) {
            current = &fibres[reverse ? threads - 1 - i : i];
            if (current->state != State::ready) continue;
            threadIdx = current->thread;
            swapcontext(&scheduler, &current->context);
            if (message[0]) return;
        }
    } while (release());
    if (!intact(shared_base + shared_bytes, shared_end)) fail("a write past the end of shared memory");
}

inline void on_fault(int signal, siginfo_t* info, void*) {
    char what[96];
    if (signal == SIGILL)
        snprintf(what, sizeof what, "undefined behaviour (misaligned access, overflow or wild shift)");
    else
        snprintf(what, sizeof what, "an access out of bounds at address %p", info->si_addr);
    fail(what);
}

// Memory between two wide stretches of address space that trap: what is touched past either end faults.
struct Pages {
    static constexpr size_t guard = 64 << 20;
    unsigned char *begin, *end;
    explicit Pages(size_t wanted) {
        const size_t bytes = (wanted + 4095) / 4096 * 4096;
        begin = guard + static_cast<unsigned char*>(mmap(nullptr, bytes + 2 * guard, PROT_NONE,
                                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        end = begin + bytes;
        mprotect(begin, bytes, PROT_READ | PROT_WRITE);
    }
    ~Pages() { munmap(begin - guard, end - begin + 2 * guard); }
    Pages(const Pages&) = delete;
};

// An array given to the kernel: a copy that ends where accesses trap, aligned to 16 bytes.
struct Array {
    Pages pages;
    unsigned char *from, *to;
    size_t bytes;
    Array(void* data, size_t n) : pages(n + 16), bytes(n) {
        memset(pages.begin, poison, pages.end - pages.begin);
        from = pages.end - (n + 15) / 16 * 16;
        to = static_cast<unsigned char*>(data);
        memcpy(from, to, n);
    }
    bool close() {
        memcpy(to, from, bytes);
        return intact(pages.begin, from) && intact(from + bytes, pages.end);
    }
};

struct Argument {
    char kind;  // 'i' integer, 'd' floating point, 'p' array of `bytes`
    union { long long i; double d; void* p; } value;
    size_t bytes;
};

constexpr unsigned max_arguments = 256;
static Argument arguments[max_arguments];
static unsigned next_argument;

template <class A>
struct Unpack {
    static A from(const Argument& a) {
        if (a.kind != 'i') fail("an argument of another kind than the kernel's parameter");
        if (static_cast<long long>(static_cast<A>(a.value.i)) != a.value.i)
            fail("an integer argument that does not fit the kernel's parameter");
        return static_cast<A>(a.value.i);
    }
};

template <class T>
struct Unpack<T*> {
    static T* from(const Argument& a) {
        if (a.kind != 'p') fail("an argument of another kind than the kernel's parameter");
        return static_cast<T*>(a.value.p);
    }
};

template <>
struct Unpack<double> {
    static double from(const Argument& a) {
        if (a.kind != 'd') fail("an argument of another kind than the kernel's parameter");
        return a.value.d;
    }
};

// An integer for a float is its bits, as a launch packs them.
template <>
struct Unpack<float> {
    static float from(const Argument& a) {
        if (a.kind != 'i') return static_cast<float>(Unpack<double>::from(a));
        const unsigned bits = Unpack<unsigned>::from(a);
        float value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
};

template <auto kernel>
struct Call {
    template <class... A>
    Call(A... arguments) { kernel(arguments...); }
};

template <auto kernel, class... A>
void call(void (*)(A...)) {
    next_argument = 0;
    Call<kernel>{Unpack<A>::from(arguments[next_argument++])...};  // in braces: from left to right
}

template <auto kernel>
void body() { call<kernel>(kernel); }

template <class... A>
constexpr unsigned arity(void (*)(A...)) { return sizeof...(A); }

template <auto kernel>
const char* launch(dim3 grid, dim3 block, const Argument* args, unsigned count, unsigned bytes, bool reverse) {
    message[0] = 0;
    if (count != arity(kernel)) return "the kernel has another number of parameters";
    if (count > max_arguments) return "the kernel has more parameters than the shim holds";
    threads = block.x * block.y * block.z;
    const Pages shared(bytes + 1024), stacks(threads * stack_bytes);
    shared_bytes = bytes;
    shared_end = shared.end;
    shared_base = shared.end - (bytes + 1023) / 1024 * 1024;
    kernel_body = body<kernel>;
    Array* arrays[max_arguments] = {};
    for (unsigned i = 0; i < count; ++i) {
        arguments[i] = args[i];
        if (args[i].kind != 'p') continue;
        arrays[i] = new Array(args[i].value.p, args[i].bytes);
        arguments[i].value.p = arrays[i]->from;
    }
    gridDim = grid, blockDim = block;
    fibres = static_cast<Fibre*>(calloc(threads, sizeof(Fibre)));
    slots = static_cast<char*>(calloc((threads + 31) / 32 * 32, 2 * slot_bytes));
    struct sigaction action = {}, old[3];
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    const int signals[3] = {SIGSEGV, SIGBUS, SIGILL};
    for (int i = 0; i < 3; ++i) sigaction(signals[i], &action, &old[i]);
    for (blockIdx.z = 0; blockIdx.z < grid.z && !message[0]; ++blockIdx.z)
        for (blockIdx.y = 0; blockIdx.y < grid.y && !message[0]; ++blockIdx.y)
            for (blockIdx.x = 0; blockIdx.x < grid.x && !message[0]; ++blockIdx.x)
                run_block(stacks.begin, reverse);
    for (int i = 0; i < 3; ++i) sigaction(signals[i], &old[i], nullptr);
    for (Fibre& f : all_fibres()) free(f.copies);
    free(fibres), free(slots);
    for (unsigned i = 0; i < count; ++i) {
        if (arrays[i] && !arrays[i]->close() && !message[0])
            snprintf(message, sizeof message, "a write outside the array of argument %u", i);
        delete arrays[i];
    }
    return message[0] ? message : nullptr;
}

}  // namespace shim
