// Cooperative matrices of 16-bit floats with sums of f32, of any shape that a device lists: left operands have SIDE_M x DEPTH
// elements, right ones DEPTH x SIDE_N, and sums SIDE_M x SIDE_N. They are loaded from units of 16 bytes, eight elements each.
// BF16: bf16, else f16.
#ifdef BF16
#extension GL_EXT_bfloat16 : require
#define Half bfloat16_t
#else
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define Half float16_t
#endif
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require

layout(constant_id = 4) const uint SIDE_M = 16;
layout(constant_id = 5) const uint SIDE_N = 16;
layout(constant_id = 6) const uint DEPTH = 16;

#define Left coopmat<Half, gl_ScopeSubgroup, SIDE_M, DEPTH, gl_MatrixUseA>
#define Right coopmat<Half, gl_ScopeSubgroup, DEPTH, SIDE_N, gl_MatrixUseB>
#define Sums coopmat<float, gl_ScopeSubgroup, SIDE_M, SIDE_N, gl_MatrixUseAccumulator>
