// Cooperative matrices of 8-bit integers, of any shape that a device lists: left operands have SIDE_M x DEPTH digits, right
// ones DEPTH x SIDE_N, and sums SIDE_M x SIDE_N. With 16 terms and more their rows are loaded from units of 16 bytes.
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require

layout(constant_id = 4) const uint SIDE_M = 16;
layout(constant_id = 5) const uint SIDE_N = 16;
layout(constant_id = 6) const uint DEPTH = 32;

#define Left coopmat<int8_t, gl_ScopeSubgroup, SIDE_M, DEPTH, gl_MatrixUseA>
#define Right coopmat<int8_t, gl_ScopeSubgroup, DEPTH, SIDE_N, gl_MatrixUseB>
#define Sums coopmat<int, gl_ScopeSubgroup, SIDE_M, SIDE_N, gl_MatrixUseAccumulator>
