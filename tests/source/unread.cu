// Statements for test_unread, each of a kernel of its own, and what stands beside them.  Behind "@" is the op of
// what is told of a statement, "" for any.

// --- beside
struct View { float* p; __device__ float& operator[](int i); __device__ float get(int) const; };
struct Num { float x; __device__ Num operator+(Num) const; };
struct Guard { float* q; __device__ ~Guard() { *q = 1; } };
struct Op { __device__ float operator()(float a) const { return a; } };
__device__ int counter;
__device__ void refd(float& x); __device__ void numb(int n); __device__ void viewed(View v);
__device__ void filled(float (&x)[64]); __device__ float twice(float x);
#define WIDTH 32

// --- told
refd(s[t]);  @ call refd
filled(s);  @ call filled
v[3] = 1;  @ call operator[]
a = v[t];  @ call operator[]
a = v.get(t);  @ call get
viewed(v);  @ call viewed
for (float e : s) a += e;  @ range-based for
unknown_call(s[t], a);  @ call unknown_call
unknown_call(v);  @ call unknown_call
unknown_call(&v);  @ call unknown_call
delete p;  @ delete
auto w = make_thing(p);  @ call make_thing
auto w = make_thing(n); other(w);  @ call other
Tensor tt = w; copy(tt, w);  @ call copy
destination = source;  @ 
Frag f(p);  @ 
float& r = s[0]; \n r = UNDEFINED.x;  @ 
run_it<3>(p);  @ call run_it
cute::copy(v, v);  @ call cute::copy
new (p + t) float(1.f);  @ 

// --- silent
numb(t);
a = twice(a);
unknown_number(a, 3);
a = __unknown_intrinsic(a);
a = sinpif(a) + __hfoo(a);
Num m{1}; Num m2 = m + m;
a = Op()(a);
int w = WIDE * 2;
unknown_number(WIDTH, n);
__syncthreads();

// --- hiding
__shared__ float s[1024];
struct Init { float x; __device__ Init() : x(s[threadIdx.x * 32]) {} };
struct InitN { float x; __device__ InitN(int i) : x(s[i * 32]) {} };
struct Member { float x = s[threadIdx.x * 32]; float y = 0; };
template <class T> struct MemberT { T x = s[threadIdx.x * 32]; };
struct Base { float x; __device__ Base() { x = s[threadIdx.x * 32]; } };
struct Derived : Base {}; struct Holder { Base base; };
template <class T> struct BaseT { T x; __device__ BaseT() { x = s[threadIdx.x * 32]; } };
template <class T> struct DerivedT : BaseT<T> {};
struct Ends { __device__ ~Ends() { s[threadIdx.x * 32] = 1; } };
struct EndsToo : Ends {}; struct EndsPart { Ends part; };
struct Copied { int i; __device__ Copied(int j) : i(j) {}
  __device__ Copied(const Copied& o) : i(o.i) { s[0] = 1; } };
struct Absent { float x; __device__ Absent(); __device__ float get(); __device__ Absent operator-(Absent); };
struct AbsentEnd { float x; __device__ ~AbsentEnd(); };
__device__ void absent(); __device__ int number(int i); template <class F> __device__ void apply(F f);

// --- made
Init a;
InitN a(threadIdx.x);
Member a;
Member a{};
MemberT<float> a;
Derived a;
Holder a;
DerivedT<float> a;

// --- out of sight
Ends();
EndsToo a;
EndsPart a;
Copied a(3); Copied b = a;
Absent a;
AbsentEnd a{1};
absent();
int i = number(3);
MACRO_OF_A_HEADER(threadIdx.x);
apply([&](int i) { s[i * 32] = 1; });
asm volatile("{ UP: st.shared.f32 [%0], %1; bra UP; }" :: "r"(b), "f"(1.f));
asm volatile("call put, (%0);" :: "r"(1));
asm volatile("tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %1, %0, 0;" :: "r"(1), "l"(2l));
asm volatile("tex.1d.v4.f32.s32 {%0, %0, %0, %0}, [%1, {%2}];" : "=f"(v) : "l"(t), "r"(3));

// --- in sight
s[threadIdx.x] = sizeof(s[threadIdx.x * 32]);
decltype(s[threadIdx.x * 32] + 0) a = 1; s[3] = a;
Plain a; Plain d{}; Plain c(3); s[threadIdx.x] = a.x + d.x + c.x;
v = std::sqrt(v) + float(hexp(h) + hsqrt(h));
asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" :: "r"(b));
asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(b) : "r"(b));
cuFloatComplex z = make_float2(1.f, 2.f); v = z.x;
