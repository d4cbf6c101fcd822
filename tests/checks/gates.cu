// Pieces of kernels for random_gates: statements, with "==" between what stands beside the kernel and its body.
// {n} is a number of the piece's own and {S} a stride.  Behind the name: the group, and what is not as usual
// (spaces of memory, turns of its loop, loads of an index, executed in block 1 alone; sized: all that is missing
// is a number, so that its accesses are known, and what they cost is not).

// --- shared store: plain
s[threadIdx.x * {S}] = v;
// --- shared load: plain
v += s[threadIdx.x * {S}];
// --- global load: plain, in global
v += g[threadIdx.x * {S}];
// --- global store: plain, in global
o[threadIdx.x * {S}] = v;
// --- loop: plain, turns 3
for (int i{n} = 0; i{n} < 3; ++i{n}) s[threadIdx.x * {S}] = v;
// --- device function: plain
__device__ void put{n}(float* s, float v) { s[threadIdx.x * {S}] = v; }
==
put{n}(s, v);
// --- macro: plain
#define PUT{n}(i) s[(i) * {S}] = v
==
PUT{n}(threadIdx.x);
// --- constructor: countable
struct Tile{n} { float* p; __device__ explicit Tile{n}(float* q) : p(q) {} __device__ float& operator()(int i) { return p[i * {S}]; } };
==
Tile{n} t{n}(s); t{n}(threadIdx.x) = v;
// --- lambda: countable
auto f{n} = [&](int i) { s[i * {S}] = v; }; f{n}(threadIdx.x);
// --- function pointer: countable
__device__ void to{n}(float* s, float v) { s[threadIdx.x * {S}] = v; }
==
void (*f{n})(float*, float) = &to{n}; f{n}(s, v);
// --- recursion: countable, turns 3
__device__ void again{n}(float* s, float v, int d) { if (d > 0) { s[threadIdx.x * {S}] = v; again{n}(s, v, d - 1); } }
==
again{n}(s, v, 3);
// --- goto: countable, turns 3
{ int i{n} = 0; up{n}: s[threadIdx.x * {S}] = v; if (++i{n} < 3) goto up{n}; }
// --- switch: countable
switch (3) { case 3: s[threadIdx.x * {S}] = v; break; default: v = 2.f; }
// --- address in asm: countable
asm volatile("{ .reg .u32 a; add.u32 a, %0, 0; st.shared.f32 [a], %1; }" :: "r"((unsigned)__cvta_generic_to_shared(s + threadIdx.x * {S})), "f"(v) : "memory");
// --- only in block 1: countable, block 1
if (blockIdx.x == 1) s[threadIdx.x * {S}] = v;
// --- template of a type: countable
template <class T> struct Holder{n} { T* p; __device__ void put(int i, T v) { p[i * {S}] = v; } };
==
Holder{n}<float> h{n}{s}; h{n}.put(threadIdx.x, v);
// --- dereference: countable
*(s + threadIdx.x * {S}) = v;
// --- member of a struct: countable
struct { float* p; } m{n}; m{n}.p = s; m{n}.p[threadIdx.x * {S}] = v;
// --- reference: countable
float& r{n} = s[threadIdx.x * {S}]; r{n} = v;
// --- volatile: countable
((volatile float*)s)[threadIdx.x * {S}] = v;
// --- comma and conditional: countable
(v > 0.f ? v : v), s[threadIdx.x * {S}] = v;
// --- destructor: countable
struct End{n} { float* p; __device__ ~End{n}() { p[threadIdx.x * {S}] = 1.f; } };
==
End{n} e{n}; e{n}.p = s;
// --- destructor of a temporary: countable
struct Over{n} { float* p; __device__ ~Over{n}() { p[threadIdx.x * {S}] = 1.f; } };
==
Over{n}{s};
// --- destructor of a member: countable
struct Part{n} { float* p; __device__ ~Part{n}() { p[threadIdx.x * {S}] = 1.f; } }; struct Outer{n} { Part{n} part; };
==
Outer{n} o{n}{}; o{n}.part.p = s;
// --- label in asm: countable
asm volatile("{ bra.uni L{n}; L{n}: st.shared.f32 [%0], %1; }" :: "r"((unsigned)__cvta_generic_to_shared(s + threadIdx.x * {S})), "f"(v) : "memory");
// --- body of a constructor: countable
struct Put{n} { __device__ Put{n}(float* q) { q[threadIdx.x * {S}] = 1.f; } };
==
Put{n} c{n}(s);
// --- copy of an object: countable
struct Copied{n} { float* p; __device__ Copied{n}(float* q) : p(q) {} __device__ Copied{n}(const Copied{n}& o) : p(o.p) { p[threadIdx.x * {S}] = 1.f; } };
==
Copied{n} c{n}(s); Copied{n} d{n} = c{n};
// --- pointer to a method: countable
struct By{n} { float* p; __device__ void put() { p[threadIdx.x * {S}] = 1.f; } };
==
By{n} y{n}; y{n}.p = s; void (By{n}::*m{n})() = &By{n}::put; (y{n}.*m{n})();
// --- placement new: countable
struct F{n} { float x; static __device__ void* operator new(unsigned long, void* p) { return p; } };
==
new (s + threadIdx.x * {S}) F{n}{v};
// --- asm of a macro: countable
#define ST{n} "st.shared.f32"
==
asm volatile(ST{n} " [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(s + threadIdx.x * {S})), "f"(v) : "memory");
// --- function of a template: countable
template <class F> __device__ void call{n}(F f) { f(threadIdx.x); }
==
call{n}([&](auto i) { s[i * {S}] = v; });
// --- range of an array: countable
float* r{n}[1] = {s}; for (float* q : r{n}) q[threadIdx.x * {S}] = v;
// --- operators of an object: countable
struct At{n} { float* p; __device__ float& operator*() { return p[threadIdx.x * {S}]; } };
==
At{n} a{n}; a{n}.p = s; *a{n} = v;
// --- array of one pointer: countable
float* a{n}[2] = {s, o}; a{n}[0][threadIdx.x * {S}] = v;
// --- declared function: opaque
__device__ void foreign{n}(float*);
==
foreign{n}(s);
// --- undeclared function: opaque, in shared and global
library{n}(s, g, 32);
// --- unknown template: opaque
View{n}<float> w{n}(s); w{n}.at(threadIdx.x) = v;
// --- unknown type: opaque
Store{n} u{n}; u{n}.write(s + threadIdx.x, v);
// --- pointer at run time: opaque, in shared and global, sized
float* p{n} = n > 3 ? s : o; p{n}[threadIdx.x] = v;
// --- array of pointers: opaque, in shared and global
float* a{n}[2] = {s, o}; a{n}[n & 1][threadIdx.x * 32] = v;
// --- declared operator: opaque
struct Op{n} { float* p; __device__ float& operator[](int); };
==
Op{n} d{n}; d{n}.p = s; d{n}[threadIdx.x * 32] = v;
// --- declared constructor: opaque
struct Made{n} { __device__ Made{n}(float*); };
==
Made{n} d{n}(s);
// --- result of a declared function: opaque
__device__ float* pick{n}(float*);
==
float* p{n} = pick{n}(s); p{n}[threadIdx.x * 32] = v;
// --- loaded index: opaque, index
s[idx[threadIdx.x]] = v;
// --- loaded index of global memory: opaque, in global
v += g[idx[threadIdx.x] & 7];
// --- missing number: opaque, sized, sized
s[(n * threadIdx.x) & 1023] = v;
// --- missing number in global memory: opaque, sized, in global
v += g[n * threadIdx.x];
// --- condition on a parameter: opaque, sized, sized
if (n > 3) s[threadIdx.x * 32] = v;
// --- turns of a parameter: opaque, sized, sized
for (int i{n} = 0; i{n} < n; ++i{n}) s[threadIdx.x * 32] = v;
// --- while of a load: opaque, in shared and global
while (g[threadIdx.x] > v) { s[threadIdx.x * 32] = v; v += 1.f; }
// --- switch of a parameter: opaque, sized, sized
switch (n) { case 1: s[threadIdx.x * 32] = v; break; default:; }
// --- goto past an access: opaque, sized, sized
if (n > 3) goto end{n}; s[threadIdx.x * 32] = v; end{n}: v += 1.f;
// --- backward goto: opaque, sized, sized
int i{n} = 0; up{n}: s[threadIdx.x * 32] = v; if (++i{n} < n) goto up{n};
// --- asm without a known instruction: opaque
asm volatile("atom.shared.cas.b32 %0, [%1], %0, %0;" : "+f"(v) : "r"((unsigned)__cvta_generic_to_shared(s)) : "memory");
// --- bulk copy in asm: opaque, in shared and global
asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];" :: "r"((unsigned)__cvta_generic_to_shared(s)), "l"(g), "r"(0) : "memory");
// --- library copy: opaque, in shared and global, sized
cooperative_groups::memcpy_async(tb, s, g, idx[0]);
// --- memcpy: opaque, in shared and global
memcpy(s, g, 128);
// --- memset: opaque
memset(s, 0, 128);
// --- library class: opaque
BlockReduce{n}(tmp{n}).Sum(s[threadIdx.x]);
// --- float atomic: opaque
atomicAdd(&s[threadIdx.x * 32], v);
// --- global atomic: opaque, sized, in global
atomicMax((int*)o + n, 3);
// --- vector of an unknown place: opaque, sized, sized
*reinterpret_cast<float4*>(s + 4 * (n * threadIdx.x & 63)) = make_float4(v, v, v, v);
// --- read-only load of an unknown place: opaque, sized, in global
v += __ldg(g + n);
// --- early return of a parameter: opaque, sized, sized
if (n == 7) return; s[threadIdx.x * 32] = v;
// --- union: opaque
union { float* p; long q; } w{n}; w{n}.q = (long)s + n; w{n}.p[threadIdx.x] = v;
// --- method without a body: opaque
struct Sink{n} { __device__ void put(float*, float); };
==
Sink{n} z{n}; z{n}.put(s, v);
// --- method without a body of an object that holds an address: opaque
struct Held{n} { float* p; __device__ void run(); };
==
Held{n} y{n}; y{n}.p = s; y{n}.run();
// --- virtual function: opaque, in shared and global
struct Base{n} { __device__ virtual void put(float*, float) = 0; }; __device__ Base{n}* base{n};
==
base{n}->put(s, v);
