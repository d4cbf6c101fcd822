// Forms of CUDA C++, each a text of its own: in front of "==" what stands beside the kernel, behind it the
// body of a kernel with threads t, a scalar n of 5 and the shared array s.  See test_forms.
// --- side_effect_behind_and
int a = 3, b = 1; if (t > 20 && (a = 2*t)) b = a;
s[a] = 1;
// --- increments_in_both_ways
int a = t, b = 2*t; int q = t < 7 ? a++ : b++;
s[a*3] = 1;
s[b*5+q] = 1;
// --- side_effect_behind_or
int a = 1, b = t; if (t < 9 || (b = 4 * t) > 60) a = 7;
s[b] = 1;
s[a*t] = 1;
// --- pointer_chosen_by_a_condition
int a = t, b = 2*t; int* p = t < 32 ? &a : &b; *p = 5;
s[a*2] = 1;
s[b] = 1;
// --- place_chosen_by_a_condition
int a = t, b = 2*t; (t < 40 ? a : b) = 9;
s[a*2] = 1;
s[b] = 1;
// --- reference_returned_of_two
__device__ int& pick(int& a, int& b, int t) { if (t < 10) return a; return b; }
==
int a = t, b = 2*t; pick(a, b, t) = 9;
s[a*2] = 1;
s[b] = 1;
// --- jump_back
int i = 0; again: 
s[2*t] = 1; 
if (++i < 3) goto again;
s[i*t] = 1;
// --- jump_over
if (n > 3) goto done; 
s[2*t] = 1; 
done:
s[t] = 1;
// --- jump_out_of_two_loops
int i, j; for (i = 0; i < 9; ++i) for (j = 0; j < 9; ++j) { if (i * j == 12) goto out; 
}
out:
s[t*i + j] = 1;
// --- bit_fields
struct B { unsigned a : 3; int b : 4; unsigned char c : 2; };
==
B x; x.a = t; x.b = t; x.c = t;
s[x.a*32] = 1;
s[x.b*32 + 512] = 1;
s[x.c*32] = 1;
x.b += 3; ++x.a; x.c--;
s[x.a*32] = 1;
s[x.b*32 + 512] = 1;
s[x.c*32] = 1;
int q = x.a = 13;
s[q*t] = 1;
// --- while_counts_down_past_its_end
int i = 3; while (i-- > 0) { }
s[(i+5)*t] = 1;
// --- while_that_lanes_leave_at_different_turns
int i = 0; { LOOP while (i++ < t) { TURN
s[i*2] = 1; 
} }
s[i*3] = 1;
// --- reference_set_behind_an_early_return
__device__ void f(int& a, int t) { if (t < 5) return; a = 7; }
==
int a = t * 2; f(a, t);
s[a] = 1;
// --- pointer_outside_of_the_loop
int a = 0; int* p = &a; for (int i = 0; i < 4; ++i) { *p += 2; }
s[a*t] = 1;
// --- pointer_set_in_a_loop
int a = 0; int* p = &a; { LOOP for (int i = 0; i < 4; ++i) { TURN
s[a*t] = 1;
*p += 2; } }
// --- pointer_to_a_struct
struct R { int x, y; };
==
R r = {t, 3}; R* p = &r; p->x = 2 * t; p->y = 5;
s[r.x] = 1;
s[r.y * t] = 1;
R q = r; q.x = 9 * t;
s[r.x] = 1;
s[q.x + p->y] = 1;
// --- narrow_compound_assignments
unsigned char c = t * 9; c += 250; ++c;
s[c] = 1;
signed char d = t * 9; d /= 2; d--;
s[d + 200] = 1;
short e = 30000; e += t * 100;
s[e & 255] = 1;
// --- compound_with_unsigned
int a = -7 - t; a /= 3u;
s[a & 1023] = 1;
a = -7 - t; a %= 5u;
s[a] = 1;
a = -t; a >>= 1;
s[a + 100] = 1;
unsigned b = -t; b >>= 3;
s[b & 1023] = 1;
// --- signed_and_unsigned_compared
int a = t - 5; unsigned b = 3; int q = 0; if (a < b) q = t;
s[q] = 1;
if (a < (int)b) q = 2*t;
s[q] = 1;
// --- floats_become_integers
int a = 1; int b = (bool)0.5f; int c = (int)2.9; int d = (int)-2.9;
s[b*t*2 + c + d*2 + 10] = 1;
// --- float_of_24_bits
float f = 16777217; int x = (int)f;
s[(x & 3) * t] = 1;
// --- byte_of_an_int
int a = t; unsigned char* p = (unsigned char*)&a; p[0] = 3;
s[a] = 1;
int b = 0x010203 * t;
s[((unsigned char*)&b)[1]] = 1;
// --- union_members
union U { int i; unsigned char c[4]; unsigned short h; };
==
U u; u.i = t * 771; 
s[u.h] = 1;
s[u.i & 4095] = 1;
u.h = 5;
s[u.i & 4095] = 1;
// --- array_through_pointers
int m[4] = {t, 2*t, 3*t, 4*t}; int* p = m; p[1] = 9; *(p + 2) = 5 * t; ++p; *p += 1;
s[m[1]] = 1;
s[m[2]] = 1;
s[p - m + t * 2] = 1;
s[m[3] + m[0]] = 1;
// --- array_through_a_reference
int m[2] = {t, 2*t}; int& r = m[1]; r = 4 * t; int i = 0; m[i++] = 7 * t;
s[m[1]] = 1;
s[m[0] + i] = 1;
// --- array_of_pointers
int a = t, b = 3*t; int* q[2] = {&a, &b}; *q[1] = 2; *q[0] += 4*t;
s[a] = 1;
s[b*t] = 1;
// --- names_shadowed
int a = t; { int a = 3 * t; 
s[a] = 1;
{ int a = 1;
s[a*t] = 1;
a = 7; } 
s[a] = 1;
}
s[a] = 1;
// --- lambda_captures
int a = 1; auto f = [=](int x) { return a * x; }; a = 2;
s[f(t)] = 1;
auto g = [&](int x) { a += x; return a; };
int b = g(t);
s[a + b] = 1;
auto h = [q = a * 2](int x) { return q + x; }; a = 0;
s[h(t)] = 1;
auto m = [a]() mutable { a += 3; return a; };
m();
s[m() * t] = 1;
// --- switch_with_fallthrough
int q = 0; switch (t & 3) { case 0: q = 5; case 1: q += t; break; case 2: { int z = t * 2; q = z; break; } default: q = 1; }
s[q] = 1;
{ LOOP for (int i = 0; i < 4; ++i) { TURN switch (i) { case 1: continue; case 2: break; default: q++; }
s[q] = 1;
} }
// --- do_with_continue
int q = 0; { LOOP do { TURN 
s[q] = 1;
if (q > t) continue; q += 3; } while ((q += 2) < 20); }
s[q] = 1;
// --- statement_expression
int x = ({ int y = t * 2; y + 1; });
s[x] = 1;
// --- fold_of_a_pack
auto sum = [](auto... v) { return (v + ... + 0); };
s[sum(t, 2*t, 1)] = 1;
// --- constexpr_if
template <int N> __device__ int g(int x) { if constexpr (N > 2) return x * N; else return x + N; }
==
s[g<3>(t)] = 1;
s[g<1>(t)] = 1;
// --- range_for
int m[3] = {1, 2, 3}; int q = 0; for (int v : m) q = q * 2 + v;
s[q * t] = 1;
for (int& v : m) v = t;
s[m[1] * 2] = 1;
// --- structured_binding
struct P { int x, y; };
==
P p = {2 * t, 5}; auto [a, b] = p; a += 1; p.x = 9;
s[a] = 1;
s[b * t] = 1;
auto& [c, d] = p; c = 3 * t;
s[p.x] = 1;
// --- recursion
__device__ int fact(int x) { return x < 2 ? 1 : x * fact(x - 1); }
==
s[fact(4) * t] = 1;
// --- defaults_and_overloads
__device__ int d(int x, int y = 3) { return x * y; } 
__device__ int d(float x) { return 2; }
==
s[d(t)] = 1;
s[d(t, 2) + d(1.5f)] = 1;
// --- array_filled_by_a_function
__device__ void fill(int* m, int t) { for (int i = 0; i < 3; ++i) m[i] = i * t; }
==
int m[3]; fill(m, t);
s[m[2]] = 1;
fill(m, 3 * t);
s[m[1]] = 1;
// --- void_pointer
int a = t; void* v = &a; *(int*)v = 5 * t;
s[a] = 1;
long d = (char*)&a - (char*)v;
s[d + t] = 1;
// --- comma
int a = (t, 2 * t); int b = (a += 2, a * 2);
s[a] = 1;
s[b] = 1;
// --- volatile
volatile int a = t; a = a * 2;
s[a] = 1;
// --- unsigned_char_promoted
unsigned char c = 200; int x = c << 1; int y = c + 100; unsigned char z = c + 100; int w = ~c;
s[(x + y + z + w) * t & 4095] = 1;
// --- bool_arithmetic
bool b = t; int x = b + b; bool c = 4; c += 3;
s[(x + c) * t] = 1;
// --- sizeof_of_expressions
int x = sizeof(t * 2.0) + sizeof(char[3]); short h = 1; x += sizeof(+h) + sizeof h;
s[x * t] = 1;
// --- reference_bound_in_turns
int a = t; for (int i = 0; i < 3; ++i) { int& r = i == 1 ? a : i; if (i == 1) r = 7 * t; }
s[a] = 1;
// --- array_of_two_ranks
int a[2][3]; for (int i = 0; i < 2; ++i) for (int j = 0; j < 3; ++j) a[i][j] = (i * 3 + j) * t; int* p = a[1]; p[1] = 2;
s[a[1][0]] = 1;
s[a[1][1] * t] = 1;
s[(&a[0][0])[5]] = 1;
// --- null_pointer_by_a_condition
int a = 5; int* p = nullptr; if (t > 3) p = &a; if (p != nullptr) a = 2 * t; if (p) *p += 1;
s[a] = 1;
s[p == nullptr ? t : 2 * t] = 1;
// --- enum_of_a_byte
enum E : unsigned char { A = 250, B }; E e = B; int x = e + 10;
s[x * t] = 1;
// --- assigned_from_its_own_increment
int x = t; x = x++ + 2;
s[x] = 1;
// --- shift_of_64_bits
long long q = (long long)t << 33; int x = q >> 31; unsigned u = q;
s[x + u] = 1;
// --- size_t_below_zero
size_t a = t - 5; int q = 0; if (a > 3) q = 2 * t;
s[q] = 1;
size_t i = 1; int c = 0; do { i -= 2; ++c; } while (i > 100 && c < 50);
s[c * t] = 1;
// --- member_with_a_value_of_its_own
struct A { int x = 5, y; };
==
A a{}; A b{3};
s[a.x * t] = 1;
s[b.x * t + b.y] = 1;
// --- constructor_and_methods
struct A { int x; int* p; __device__ A(int v, int* q) : x(v), p(q) { *q = 2 * v; } __device__ int get() const { return x + *p; } __device__ void set(int v) { this->x = v; x += 1; } };
==
int z = 0; A a(t, &z);
s[z] = 1;
s[a.get()] = 1;
a.set(3 * t);
s[a.x] = 1;
// --- array_in_a_struct
struct A { int v[3]; };
==
A a; a.v[0] = t; a.v[1] = 2 * t; A b = a; b.v[1] = 9;
s[a.v[1]] = 1;
s[b.v[1] * t] = 1;
// --- reference_member
struct R { int& a; };
==
int z = 0; R r{z}; r.a = 3 * t;
s[z] = 1;
// --- effects_in_a_sum
int a = t; int q = a++ * 2 + (a > 5 ? a-- : 0);
s[q] = 1;
s[a] = 1;
// --- break_and_continue_by_lanes
int a = 0; { LOOP for (int i = 0; i < 6; ++i) { TURN if (i == 3 && t > 5) break; a += t; if (i == 1) continue;
s[a] = 1;
} }
s[a] = 1;
// --- loop_without_an_end
int i = 0; { LOOP while (true) { TURN i += 2; if (i > t) break;
s[i] = 1;
if (t == 40) return; } }
s[i * 3] = 1;
// --- remainder_of_negative_numbers
int r = t % 5 - 2; int x = r % 3; int y = (r * 7) / 2;
s[x + 10] = 1;
s[y + 10] = 1;
// --- pointer_set_anew
int a = 1, b = 2; int& r = a; int* p = &r; p = &b; *p = 3 * t; r = 4 * t;
s[a] = 1;
s[b] = 1;
// --- break_by_lanes
int v = 0; for (int i = 0; i < t; ++i) { v += i; if (v > 20) break; }
s[v] = 1;
// --- pointers_swapped
int v = 0; int* p = &v; int w = 1; int* q = &w; { LOOP for (int i = 0; i < 4; ++i) { TURN
s[v * t] = 1;
*p = i; int* x = p; p = q; q = x; } }
s[w * t + v] = 1;
// --- array_counts_turns
int m[1] = {1}; { LOOP for (int i = 0; i < 4; ++i) { TURN
s[m[0] * t] = 1;
m[0] += 1; } }
s[m[0] * t] = 1;
// --- array_set_in_some_lanes_turns
int m[2] = {t, t}; for (int i = t; i < 40; i += 32) m[0] = 7 * t;
s[m[0]] = 1;
// --- struct_counts_turns
struct R { int x, y; };
==
R r = {1, 2}; int q = 0; { LOOP for (int i = 0; i < 4; ++i) { TURN
s[r.x * t] = 1;
r.x += 2; q += r.x; } }
s[q * t] = 1;
// --- float_decides_in_a_loop
float f = 1; int q = 0; for (int i = 0; i < 4; ++i) { if (f > 3) q += 1; f = f * 2; }
s[q * t] = 1;
// --- break_behind_an_effect
int q = 0; { LOOP while (true) { TURN if (q == 5) { q += t; break; } ++q;
s[q * t] = 1;
} }
s[q] = 1;
// --- return_inside_a_loop
__device__ int g(int& a, int t) { for (int i = 0; i < 5; ++i) { if (i == t) return 7; a += i; } return a; }
==
int a = 2; CALL int q = g(a, t % 8);
s[a * 3 + q] = 1;
// --- if_with_a_declaration
if (int w = t & 3) { int z = w * 2;
s[z] = 1;
} else {
s[w + 4 * t] = 1;
}
int a = 4; if (a = t; a > 5)
s[a * 2] = 1;
else
s[a * 3] = 1;
// --- while_with_a_declaration
int a = 6; { LOOP while (int r = a--) { TURN
s[r * t] = 1;
if (a > t) break; } }
s[a * t] = 1;
// --- conditional_without_a_middle
int a = t ? t * 2 : 5; int b = 0; int c = a ?: b;
s[c] = 1;
// --- noexcept_and_sizeof_do_nothing
int a = 1; bool nn = noexcept(a++); int x = sizeof(a++); 
s[x * t + nn + a] = 1;
// --- references_to_copies
int a = t; const int& rr = (short)a; const int& rs = a; const int& rt = static_cast<int>(a); int&& ru = (int&&)a; a = 3 * t;
s[rr] = 1;
s[rs] = 1;
s[rt * 2] = 1;
ru = 5 * t;
s[a] = 1;
// --- float_read_as_int
float f = 1.0f * t; int q = (int&)f; float g = 2.0f; int h = reinterpret_cast<int&>(g); int i = (int)g;
s[(q & 31) + i * t] = 1;
s[(h & 1) + i * t] = 1;
// --- braces_left_out
int m[2][2] = {1, 2, 3, 4};
s[m[1][0] * t] = 1;
struct { int v[2]; int y; } x = {5, 6, 7};
s[x.v[1] * t] = 1;
s[x.y * t] = 1;
struct { int a, b; } y = {.b = 4};
s[y.b * t + y.a] = 1;
// --- bases
struct A { int x; }; struct B : A { int y; }; struct C { int z; }; struct D : A, C { int w; };
==
B b; b.x = t; b.y = 3 * t; A* p = &b; p->x = 2 * t; 
s[b.x] = 1;
s[b.y] = 1;
D d; d.x = t; d.z = 2 * t; d.w = 3; C* c = &d; c->z = 4 * t;
s[d.z] = 1;
s[d.x * 7] = 1;
// --- base_member_hidden
struct A { int x; }; struct B : A { int x; };
==
B b; b.x = t; b.A::x = 3 * t;
s[b.x] = 1;
s[b.A::x] = 1;
// --- anonymous_union
struct U { union { int a; unsigned char b[4]; }; int c; };
==
U u; u.a = t * 300; u.c = t;
s[u.b[1]] = 1;
s[u.c] = 1;
// --- destructor
struct G { int& r; __device__ G(int& r) : r(r) {} __device__ ~G() { r += 3; } };
==
int a = t; { G g(a); }
s[a * 2] = 1;
// --- operators_of_a_struct
struct V { int x; __device__ V(int v) : x(v) {} __device__ V operator+(V o) const { return V(x + o.x); } __device__ operator int() const { return x * 2; } __device__ V& operator+=(int d) { x += d; return *this; } __device__ int operator[](int i) const { return x + i; } };
==
V a(t), b(2 * t); V c = a + b; c += 5; int q = c;
s[q] = 1;
s[c[3]] = 1;
(c += 1) += t;
s[c.x] = 1;
// --- virtual_call
struct V { int x; __device__ virtual int f() { return x; } }; struct W : V { __device__ int f() override { return 2 * x; } };
==
W w; w.x = 3 * t; V* p = &w; int q = p->f();
s[q] = 1;
s[w.x] = 1;
// --- function_pointer
__device__ int twice(int x) { return 2 * x; }
__device__ int thrice(int x) { return 3 * x; }
==
int (*f)(int) = twice; int q = f(t);
s[q] = 1;
f = t < 40 ? &twice : twice;
s[(*f)(t)] = 1;
f = n > t ? thrice : twice;
s[t] = 1;
// --- function_pointer_of_a_table
__device__ int twice(int x) { return 2 * x; }
__device__ int thrice(int x) { return 3 * x; }
==
int (*f[2])(int) = {twice, thrice};
s[f[1](t)] = 1;
s[f[t & 1](t)] = 1;
// --- function_as_an_argument_of_a_template
__device__ int twice(int x) { return 2 * x; }
template <int (*f)(int)> __device__ int go(int x) { return f(x) + f(x + 1); }
==
s[go<twice>(t)] = 1;
s[go<&twice>(t) * 2] = 1;
// --- function_objects_as_arguments
template <class F> __device__ int app(F f, int x) { return f(x) + f(x + 1); }
==
int k = 2; int c = 0; int q = app([=](int x) { return x * k; }, t); int r = app([&](int x) { ++c; return x * k; }, t);
s[q + r] = 1;
s[c * t] = 1;
// --- template_members
template <int N, class T> struct Vec { T v[N]; __device__ T& at(int i) { return v[i]; } __device__ T at(int i) const { return v[i]; } };
==
Vec<3, int> x; x.at(0) = t; x.at(1) = 2 * t; x.at(2) = x.at(0) + x.at(1); const Vec<3, int>& y = x; x.at(0) = 5 * t;
s[y.at(2)] = 1;
s[y.at(0)] = 1;
// --- pointer_to_pointer
int a = t, b = 3; int* p = &a; int** pp = &p; *pp = &b; *p = 4 * t; **pp += 1;
s[a * 2] = 1;
s[b] = 1;
// --- pointer_walks
int a[4] = {t, 2 * t, 3 * t, 4 * t}; int* p = a; *p++ = 7; *p++ = 9 * t; *++p = 1 ? 2 : 3; 
s[a[0] * t] = 1;
s[a[1]] = 1;
s[a[2]] = 1;
// --- increments_of_elements
int a = 0, i = 0; int m[3] = {4, 5, 6}; ++m[i++]; m[i++]--; a = m[0] * 100 + m[1] * 10 + i;
s[a * t] = 1;
// --- narrow_wraps
short h = 32767; h++; unsigned short u = 0; u--; unsigned char c = 255; c += 2; signed char d = 127; ++d; char e = 200;
s[(h & 63) * t] = 1;
s[(u & 7) * t] = 1;
s[c * t] = 1;
s[(d + 130) * t] = 1;
s[(e + 60) * t] = 1;
// --- wide_and_unsigned
unsigned a = 5; int b = -3; int q = a > b ? 2 : 3; long w = a + b; long v = (long)a * b; 
s[q * t] = 1;
s[(w + 4 & 63) * t] = 1;
s[(v & 63) * t] = 1;
// --- unsigned_short
unsigned short a = 50000; unsigned short b = a * 2; int c = a * 2; unsigned d = a << 16; int e = (short)a;
s[(b & 127) * t] = 1;
s[(c & 127) * t] = 1;
s[(d >> 20 & 127) * t] = 1;
s[(e & 127) * t] = 1;
// --- case_range
int x = t; switch (x) { case 3: int y; y = 4; x = y; break; case 4 ... 6: x = 9; break; }
s[x] = 1;
// --- switch_in_a_loop
int x = 0; { LOOP for (int i = 0; i < 6; ++i) { TURN switch (t & 1) { case 0: if (i == 2) continue; x += 1; default: if (i == 4) break; x += 2; }
s[x * t] = 1;
} }
s[x * t] = 1;
// --- case_inside_a_block
int x = 0; switch (t & 3) { case 0: { x = 3; case 1: x += 5; } break; default: x = 7; }
s[x * 5] = 1;
// --- loops_left_inside_each_other
int x = t; { LOOP for (int i = 0; i < 3; ++i) { TURN { LOOP for (int j = 0; j < 4; ++j) { TURN if (j == i) break; if ((t & 1) && j == 1) continue; x += j;
s[x] = 1;
} }
s[x * 2] = 1;
} }
// --- loop_variable_set_inside
int c = 0; { LOOP for (int i = 0; i < 5; i++) { TURN c = c * 2 + (i & 1);
s[c * t] = 1;
if (c > 3 && t > 40) i = 9; } }
// --- do_with_an_effect
int i = 10; { LOOP do { TURN i -= 3;
s[i * t + 100] = 1;
} while (i-- > 0); }
s[i * t + 100] = 1;
// --- swap_by_xor
int a = 1, b = 2; a ^= b ^= a ^= b;
s[a * t] = 1;
s[b * t] = 1;
// --- two_loop_variables
int q = 0; for (int i = 0, j = 8; i < j; ++i, j -= 2) q += i * j;
s[q * t] = 1;
// --- lambda_that_calls_itself
auto fib = [](auto self, int x) -> int { return x < 2 ? x : self(self, x - 1) + self(self, x - 2); };
s[fib(fib, 5) * t] = 1;
// --- constant_tables
constexpr int T[4] = {1, 3, 5, 7}; const int U[2] = {2, 4};
s[T[2] * t] = 1;
s[U[1] * t] = 1;
// --- scopes
int a = t; { int b = a; a = 2 * b; { int a = 5 * t; b = a;
s[b] = 1;
} 
s[b + a] = 1;
}
// --- shifts_and_signs_compound
int n2 = n; n2 <<= 1; n2 |= 1; n2 %= 4; n2 = -n2; n2 /= 2; n2 = ~n2;
s[n2 * t + 10] = 1;
// --- unsigned_difference
int a = t; unsigned b = a - 10; int c = b / 2; int d = (a - 10) / 2; int e = (a - 10) % 3;
s[c & 4095] = 1;
s[d + 20] = 1;
s[e + 20] = 1;
// --- string
const char* str = "abc"; int q = str[1];
s[q * t] = 1;
// --- wide_constants
long long a = 1LL << 40; a *= t; int b = a >> 38; unsigned long long c = -1ull; int d = c > a;
s[b] = 1;
s[d * t] = 1;
// --- endless_loop_left
int a = 0; for (;;) { if (a >= 5) break; a += 2; } do { a++; } while (false);
s[a * t] = 1;
// --- reference_by_condition
int x = t, y = 2; int& z = t > 5 ? x : y; z = 3 * t; int w = (t & 1 ? x : y) += 4;
s[x] = 1;
s[y] = 1;
s[w] = 1;
// --- bit_fields_by_list
struct S { unsigned lo : 4, hi : 4; signed k : 3; bool f : 1; };
==
S a = {20, 3, 5, 4}; a.hi += 14; a.lo <<= 1; a.k -= 1; S b = a; b.lo = t; unsigned char* p = (unsigned char*)&a; 
s[a.lo * t] = 1;
s[a.hi * t] = 1;
s[(a.k + 8) * t] = 1;
s[a.f * t] = 1;
s[b.lo] = 1;
p[0] = 3;
s[a.lo * t] = 1;
// --- pointer_that_changes_its_array_in_a_loop
int a = t, b = 2 * t + 1, c = 3; ((unsigned char*)&b)[1] = -3;
{ int* z = &b; for (int y = 0; y < 3; ++y) { *z += 3; z = y & 1 ? &b : &a; } }
s[(a * 2) & 4095] = 1;
{ int m[2] = {t, 5}; int* z = &c; LOOP for (int y = 0; y < 2000; ++y) { TURN s[(y + m[0]) & 4095] = 1; *z += 3; z = m; } }
{ int k = 0; int* z = &c; c = 0; LOOP while (*z < 9) { TURN s[c & 4095] = 1; ++*z; z = ++k & 1 ? &a : &c; } }
// --- tables_and_indices_that_vary
static constexpr int F[4] = {0, 33, 2, 99}; struct G { static constexpr int h[2][2] = {{4, 8}, {12, 20}}; };
==
static const int z[2] = {0, 32}; int r[4]; for (int i = 0; i < 4; i++) r[i] = i * 32;
s[F[t & 3]] = 1;
s[G::h[t & 1][t >> 5] * 8] = 1;
s[z[t & 1] + r[t & 3]] = 1;
r[t & 1] = 5 * t;
s[r[t & 3]] = 1;
for (int i = 0; i < 4; i++) r[(i + t) & 3] = i * t;
s[r[1] + r[n & 3]] = 1;
r[(t + 1) & 3] += 7;
s[r[2]] = 1;
// --- method_that_calls_a_method
struct P { int a; __device__ int twice() const { return 2 * a; } __device__ void grow() { a += twice(); }
    __device__ int more() { grow(); return twice() + 1; } };
==
P p = {t};
s[p.more()] = 1;
s[p.a] = 1;
