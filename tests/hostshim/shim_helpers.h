// What a kernel calls: CUDA's built-in functions, and the device helpers that are inline PTX on a GPU.
//
// A helper here has the name and signature of the generated one and means what PTX says it means, at the
// latest moment PTX allows: an asynchronous copy lands when its group is waited for, not when it is started.
#pragma once
#include "shim.h"
#include "shim_numbers.h"

inline void __syncthreads() { shim::wait(shim::State::at_block_barrier); }

template <class T>
T __ldg(const T* p) { return *p; }

template <class T>
T __shfl_sync(unsigned mask, T value, int lane) {
    T all[32];
    shim::exchange(mask, value, all);
    return all[lane & 31];
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask) {
    return __shfl_sync(mask, value, static_cast<int>(shim::current->lane) ^ lane_mask);
}

// redux.sync: every lane gets the sum, which wraps, the maximum or the minimum of all 32.
inline int __reduce_add_sync(unsigned mask, int value) {
    int all[32];
    unsigned sum = 0;
    shim::exchange(mask, value, all);
    for (int one : all) sum += static_cast<unsigned>(one);
    return static_cast<int>(sum);
}

inline int __reduce_max_sync(unsigned mask, int value) {
    int all[32];
    shim::exchange(mask, value, all);
    for (int one : all) value = one > value ? one : value;
    return value;
}

inline int __reduce_min_sync(unsigned mask, int value) {
    int all[32];
    shim::exchange(mask, value, all);
    for (int one : all) value = one < value ? one : value;
    return value;
}

inline void __syncwarp(unsigned mask = 0xFFFFFFFF) { __shfl_sync(mask, 0, 0); }

// Byte i of the result is byte (s >> 4i) & 7 of the eight bytes of y:x; bit 3 would replicate the sign.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
    const unsigned long long bytes = static_cast<unsigned long long>(y) << 32 | x;
    unsigned out = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned selector = s >> 4 * i & 0xF;
        unsigned byte = bytes >> 8 * (selector & 7) & 0xFF;
        if (selector & 8) byte = byte & 0x80 ? 0xFF : 0;
        out |= byte << 8 * i;
    }
    return out;
}

namespace shim {

// A copy without a source writes zeros.
template <unsigned bytes>
void start_copy(void* to, const void* from, bool inside = true) {
    if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % bytes)
        fail("a cp.async that is not aligned to its width");
    Fibre& f = *current;
    if (f.pending == f.room) {
        f.room = 2 * f.room + 16;
        f.copies = static_cast<PendingCopy*>(realloc(f.copies, f.room * sizeof(PendingCopy)));
    }
    f.copies[f.pending++] = {to, inside ? from : nullptr, bytes, f.group};
}

}  // namespace shim

template <class T, class Word>
void store_whole(void* p, const Word* v) {
    T value;
    memcpy(&value, v, sizeof value);
    *static_cast<T*>(p) = value;
}

template <class Word>
void stg64_whole(void* p, const Word* v) { store_whole<uint2>(p, v); }
template <class Word>
void stg128_whole(void* p, const Word* v) { store_whole<uint4>(p, v); }

// Kernels run one after the other: what the one in front wrote is there.
inline void grid_wait() {}

template <class T, class Word>
void load_whole(Word* d, const void* p) {
    const T value = *static_cast<const T*>(p);
    memcpy(d, &value, sizeof value);
}

inline void ldg8_fresh(unsigned& d, const void* p) { d = *static_cast<const unsigned char*>(p); }
inline void ldg16_fresh(unsigned& d, const void* p) { d = *static_cast<const unsigned short*>(p); }
template <class Word>
void ldg32_fresh(Word& d, const void* p) { load_whole<unsigned>(&d, p); }
template <class Word>
void ldg64_fresh(Word* d, const void* p) { load_whole<uint2>(d, p); }
template <class Word>
void ldg128_fresh(Word* d, const void* p) { load_whole<uint4>(d, p); }

inline void cp_async_4(void* s, const void* p) { shim::start_copy<4>(s, p); }
inline void cp_async_8(void* s, const void* p) { shim::start_copy<8>(s, p); }
inline void cp_async_16(void* s, const void* p) { shim::start_copy<16>(s, p); }

inline void cp_async_4_line(void* s, const void* p) { shim::start_copy<4>(s, p); }
inline void cp_async_8_line(void* s, const void* p) { shim::start_copy<8>(s, p); }
inline void cp_async_16_line(void* s, const void* p) { shim::start_copy<16>(s, p); }

inline void cp_async_4_zfill(void* s, const void* p, bool inside) { shim::start_copy<4>(s, p, inside); }
inline void cp_async_8_zfill(void* s, const void* p, bool inside) { shim::start_copy<8>(s, p, inside); }
inline void cp_async_16_zfill(void* s, const void* p, bool inside) { shim::start_copy<16>(s, p, inside); }

inline void cp_async_commit() { ++shim::current->group; }

template <int newest>
void cp_async_wait() {
    shim::Fibre& f = *shim::current;
    unsigned landed = 0;  // all groups but the open one and the `newest` before it
    for (; landed < f.pending && f.copies[landed].group + newest < f.group; ++landed) {
        const shim::PendingCopy& copy = f.copies[landed];
        if (copy.from)
            memcpy(copy.to, copy.from, copy.bytes);
        else
            memset(copy.to, 0, copy.bytes);
    }
    f.pending -= landed;
    if (f.pending) memmove(f.copies, f.copies + landed, f.pending * sizeof(shim::PendingCopy));
}

namespace shim {

struct Row { const void* at; };

// 8 x 8 matrices of 16-bit elements, four or fewer: lane l addresses row l % 8 of matrix l / 8.
inline void load_matrices(unsigned* d, const void* s, bool transposed, unsigned count = 4) {
    if (reinterpret_cast<uintptr_t>(s) % 16) fail("an ldmatrix whose row is not aligned to 16 bytes");
    Row rows[32];
    exchange(0xFFFFFFFF, Row{s}, rows);
    const unsigned near = current->lane % 4 * 2, far = current->lane / 4;
    for (unsigned matrix = 0; matrix < count; ++matrix) {
        auto element = [&](unsigned row, unsigned column) -> unsigned {
            return static_cast<const unsigned short*>(rows[8 * matrix + row].at)[column];
        };
        d[matrix] = transposed ? element(near, far) | element(near + 1, far) << 16
                               : element(far, near) | element(far, near + 1) << 16;
    }
    Row done[32];  // nobody goes on to overwrite what another lane still reads
    exchange(0xFFFFFFFF, Row{s}, done);
}

}  // namespace shim

inline void ldmatrix_x1(unsigned& d, const void* s) { shim::load_matrices(&d, s, false, 1); }
inline void ldmatrix_x1_trans(unsigned& d, const void* s) { shim::load_matrices(&d, s, true, 1); }
inline void ldmatrix_x2(unsigned* d, const void* s) { shim::load_matrices(d, s, false, 2); }
inline void ldmatrix_x2_trans(unsigned* d, const void* s) { shim::load_matrices(d, s, true, 2); }
inline void ldmatrix_x4(unsigned* d, const void* s) { shim::load_matrices(d, s, false); }
inline void ldmatrix_x4_trans(unsigned* d, const void* s) { shim::load_matrices(d, s, true); }
