// Constants of HLX arithmetic, written by `cargo xtask shaders` from constants.txt.
#ifndef HLX_CONSTANTS_GLSL
#define HLX_CONSTANTS_GLSL
// 1/m on [1, 2], relative error 1/99 (minimax)
const float HLX_RECIP_0 = 2.121212959289551; // 0x4007c1f4
const float HLX_RECIP_1 = -1.4545462131500244; // 0xbfba2e92
const float HLX_RECIP_2 = 0.3232324719429016; // 0x3ea57eba
// bits of 2 - 2^-12: from here on 1/m is a formula
const uint HLX_RECIP_NEAR_2 = 0x3ffff800u;
// minus half the bits of x: 1/sqrt(x) within 3.5 %
const uint HLX_RSQRT_SEED = 0x5f375a00u;
// second coefficient of 1/sqrt(1 - e)
const float HLX_THREE_EIGHTHS = 0.375; // 0x3ec00000
// lifts small arguments of sqrt
const float HLX_TWO_64 = 1.8446744073709552e19; // 0x5f800000
// the lift undone after the root
const float HLX_TWO_M32 = 2.3283064365386963e-10; // 0x2f800000
// below it sqrt lifts its argument
const float HLX_TWO_M62 = 2.168404344971009e-19; // 0x20800000
// 1/ln 2
const float HLX_LOG2E = 1.4426950216293335; // 0x3fb8aa3b
// 1.5 * 2^23: adding it rounds to an integer
const float HLX_ROUND_MAGIC = 12582912.0; // 0x4b400000
// ln 2
const float HLX_LN2_0 = 0.6931471824645996; // 0x3f317218
// ln 2 - LN2_0
const float HLX_LN2_1 = -1.9046542121259336e-9; // 0xb102e308
const float HLX_EXP_0 = 0.4999999403953552; // 0x3efffffe
const float HLX_EXP_1 = 0.16666516661643982; // 0x3e2aaa46
const float HLX_EXP_2 = 0.04166810214519501; // 0x3d2aac2c
const float HLX_EXP_3 = 0.00836919341236353; // 0x3c091ef1
const float HLX_EXP_4 = 0.0013838928425684571; // 0x3ab563bd
// 88.72283: the largest x whose exp is finite
const float HLX_EXP_HIGH = 88.72283172607422; // 0x42b17217
// -87.33654: the least x whose exp is a normal number
const float HLX_EXP_LOW = -87.33654022216797; // 0xc2aeac4f
// bits of sqrt(1/2): 1 + f lies in [sqrt(1/2), sqrt(2))
const uint HLX_SQRT_HALF = 0x3f3504f3u;
const float HLX_LOG_0 = 0.3333333134651184; // 0x3eaaaaaa
const float HLX_LOG_1 = -0.250008225440979; // 0xbe800114
const float HLX_LOG_2 = 0.20001226663589478; // 0x3e4cd004
const float HLX_LOG_3 = -0.16623356938362122; // 0xbe2a3922
const float HLX_LOG_4 = 0.14201761782169342; // 0x3e116d11
const float HLX_LOG_5 = -0.131601944565773; // 0xbe06c2a9
const float HLX_LOG_6 = 0.12761549651622772; // 0x3e02ada3
const float HLX_LOG_7 = -0.07634429633617401; // 0xbd9c5a66
const float HLX_EXP2_0 = 0.6931471824645996; // 0x3f317218
const float HLX_EXP2_1 = 0.24022647738456726; // 0x3e75fdee
const float HLX_EXP2_2 = 0.05550359562039375; // 0x3d6357bd
const float HLX_EXP2_3 = 0.009618498384952545; // 0x3c1d96e8
const float HLX_EXP2_4 = 0.0013390971580520272; // 0x3aaf84a5
const float HLX_EXP2_5 = 0.00015329732559621334; // 0x3920be70
// 2^-25: below it expm1(x) and log1p(x) are x
const float HLX_EXPM1_TINY = 2.9802322387695313e-8; // 0x33000000
// -20: below it expm1 is -1
const float HLX_EXPM1_LOW = -20.0; // 0xc1a00000
// 1/ln 2 - LOG2E
const float HLX_LOG2E_1 = 1.925963033500011e-8; // 0x32a57060
// 1/ln 10
const float HLX_LOG10E_0 = 0.4342944920063019; // 0x3ede5bd9
// 1/ln 10 - LOG10E_0
const float HLX_LOG10E_1 = -1.0103049952192578e-8; // 0xb22d91af
// log10(2)
const float HLX_LOG10_2_0 = 0.3010300099849701; // 0x3e9a209b
// log10(2) - LOG10_2_0
const float HLX_LOG10_2_1 = -1.432098883924482e-8; // 0xb2760860
// 2^26: beyond it 1 + x is x
const float HLX_LOG1P_HIGH = 67108864.0; // 0x4c800000
// 1/(m + 1) for m in [sqrt(1/2), sqrt(2)], relative error 1.3e-3
const float HLX_POW_RECIP_0 = 1.4777559041976929; // 0x3fbd271b
const float HLX_POW_RECIP_1 = -0.7224441170692444; // 0xbf38f219
const float HLX_POW_RECIP_2 = 0.11686289310455322; // 0x3def55d0
// 2/ln 2
const float HLX_POW_K_0 = 2.885390043258667; // 0x4038aa3b
// 2/ln 2 - POW_K_0
const float HLX_POW_K_1 = 3.851926067000022e-8; // 0x33257060
// 2/(3 ln 2)
const float HLX_POW_K3_0 = 0.9617967009544373; // 0x3f76384f
// 2/(3 ln 2) - POW_K3_0
const float HLX_POW_K3_1 = -7.028461812552678e-9; // 0xb1f17f01
const float HLX_POW_LOG_0 = 0.5770801901817322; // 0x3f13bb87
const float HLX_POW_LOG_1 = 0.4118499159812927; // 0x3ed2ddfe
const float HLX_POW_LOG_2 = 0.337820827960968; // 0x3eacf6da
// bits of 1
const uint HLX_ONE = 0x3f800000u;
// 128: beyond it 2^p is infinite
const float HLX_POW_HIGH = 128.0; // 0x43000000
// -126.5: below it 2^p is zero
const float HLX_POW_LOW = -126.5; // 0xc2fd0000
// beyond it tanh is 1
const float HLX_TANH_HIGH = 10.0; // 0x41200000
// below it tanh(x) and sin(x) are x
const float HLX_TINY_ANGLE = 0.000244140625; // 0x39800000
// erf(x) = x + x P(x^2) below, 1 - exp(-x Q(x)) above
const float HLX_ERF_SPLIT = 0.875; // 0x3f600000
// beyond it erf is 1
const float HLX_ERF_HIGH = 4.0; // 0x40800000
// P, relative error 1.5e-8
const float HLX_ERF_0 = 0.12837915122509003; // 0x3e0375d3
const float HLX_ERF_1 = -0.3761250376701355; // 0xbec09376
const float HLX_ERF_2 = 0.11281921714544296; // 0x3de70dc3
const float HLX_ERF_3 = -0.026770485565066338; // 0xbcdb4dc7
const float HLX_ERF_4 = 0.004998927935957909; // 0x3ba3ce0c
const float HLX_ERF_5 = -0.0006020490545779467; // 0xba1dd2d4
// Q, error of erf 3.4e-9
const float HLX_ERFC_0 = 1.1285254955291748; // 0x3f907386
const float HLX_ERFC_1 = 0.6356803774833679; // 0x3f22bbf3
const float HLX_ERFC_2 = 0.10531217604875565; // 0x3dd7ade9
const float HLX_ERFC_3 = -0.022922443225979805; // 0xbcbbc7d9
const float HLX_ERFC_4 = 0.0032251463271677494; // 0x3b535cfa
const float HLX_ERFC_5 = -0.00021522873430512846; // 0xb961af06
const float HLX_TWO_OVER_PI = 0.6366197466850281; // 0x3f22f983
// pi/2 in three parts
const float HLX_PIO2_0 = 1.5707963705062866; // 0x3fc90fdb
const float HLX_PIO2_1 = -4.371138828673793e-8; // 0xb33bbd2e
const float HLX_PIO2_2 = -1.7151245100058819e-15; // 0xa6f72ced
const float HLX_SIN_0 = -0.16666655242443085; // 0xbe2aaaa3
const float HLX_SIN_1 = 0.008332188241183758; // 0x3c0883bb
const float HLX_SIN_2 = -0.0001951809535967186; // 0xb94ca97d
const float HLX_COS_0 = 0.04166664555668831; // 0x3d2aaaa5
const float HLX_COS_1 = -0.0013887309469282627; // 0xbab60614
const float HLX_COS_2 = 2.4432327336398885e-5; // 0x37ccf406
// 2^17: beyond it the reduction multiplies by 2/pi in integers
const float HLX_ANGLE_HIGH = 131072.0; // 0x48000000
// 2/pi = 0.a2f9836e4e44... in hexadecimal
const uint HLX_TWO_OVER_PI_WORD_0 = 0xa2f9836eu;
const uint HLX_TWO_OVER_PI_WORD_1 = 0x4e441529u;
const uint HLX_TWO_OVER_PI_WORD_2 = 0xfc2757d1u;
const uint HLX_TWO_OVER_PI_WORD_3 = 0xf534ddc0u;
const uint HLX_TWO_OVER_PI_WORD_4 = 0xdb629599u;
const uint HLX_TWO_OVER_PI_WORD_5 = 0x3c439041u;
const uint HLX_TWO_OVER_PI_WORD_6 = 0xfe5163abu;
const float HLX_TAN_0 = 0.33333349227905273; // 0x3eaaaab0
const float HLX_TAN_1 = 0.13332675397396088; // 0x3e0886cf
const float HLX_TAN_2 = 0.05405891314148903; // 0x3d5d6ce1
const float HLX_TAN_3 = 0.02128620818257332; // 0x3cae606a
const float HLX_TAN_4 = 0.010827424935996532; // 0x3c316583
const float HLX_TAN_5 = 9.831741772359237e-5; // 0x38ce2fc3
const float HLX_TAN_6 = 0.004372629337012768; // 0x3b8f4846
const float HLX_ASIN_0 = 0.16666731238365173; // 0x3e2aaad6
const float HLX_ASIN_1 = 0.07495956867933273; // 0x3d998467
const float HLX_ASIN_2 = 0.045401494950056076; // 0x3d39f6eb
const float HLX_ASIN_3 = 0.024475635960698128; // 0x3cc88121
const float HLX_ASIN_4 = 0.04171587526798248; // 0x3d2ade44
const float HLX_ATAN_0 = -0.3333331346511841; // 0xbeaaaaa4
const float HLX_ATAN_1 = 0.19998906552791595; // 0x3e4cc9ef
const float HLX_ATAN_2 = -0.14267569780349731; // 0xbe121994
const float HLX_ATAN_3 = 0.10967876762151718; // 0x3de09f43
const float HLX_ATAN_4 = -0.08445630222558975; // 0xbdacf76d
const float HLX_ATAN_5 = 0.05863187089562416; // 0x3d7027f9
const float HLX_ATAN_6 = -0.031812142580747604; // 0xbd024d73
const float HLX_ATAN_7 = 0.011238823644816875; // 0x3c38230b
const float HLX_ATAN_8 = -0.0018630847334861755; // 0xbaf432c0
// pi
const float HLX_PI_0 = 3.1415927410125732; // 0x40490fdb
// pi - PI_0
const float HLX_PI_1 = -8.742277657347586e-8; // 0xb3bbbd2e
const float HLX_SINH_0 = 0.1666666716337204; // 0x3e2aaaab
const float HLX_SINH_1 = 0.008333306759595871; // 0x3c08886c
const float HLX_SINH_2 = 0.00019843873451463878; // 0x395013fe
const float HLX_SINH_3 = 2.7760586363001494e-6; // 0x363a4c53
// 89.415985: the largest x whose cosh is finite
const float HLX_COSH_HIGH = 89.41598510742188; // 0x42b2d4fc
const uint HLX_PHILOX_M0 = 0xd2511f53u;
const uint HLX_PHILOX_M1 = 0xcd9e8d57u;
const uint HLX_PHILOX_W0 = 0x9e3779b9u;
const uint HLX_PHILOX_W1 = 0xbb67ae85u;
// a 24-bit integer to [0, 1)
const float HLX_TWO_M24 = 5.960464477539063e-8; // 0x33800000
// 2 pi
const float HLX_TWO_PI = 6.2831854820251465; // 0x40c90fdb
// 1/sqrt(2): GELU
const float HLX_INV_SQRT_2 = 0.7071067690849304; // 0x3f3504f3
// 1/sqrt(2 pi): GELU's derivative
const float HLX_INV_SQRT_2PI = 0.3989422917366028; // 0x3ecc422a
// sqrt(2/pi): GELU by tanh
const float HLX_SQRT_2_OVER_PI = 0.7978845834732056; // 0x3f4c422a
// GELU by tanh
const float HLX_GELU_CUBIC = 0.044714998453855515; // 0x3d372713

#endif
