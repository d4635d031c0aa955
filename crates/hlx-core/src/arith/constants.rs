//! Constants of HLX arithmetic, written by `cargo xtask shaders` from
//! `shaders/include/constants.txt`.

/// 1/m on [1, 2], relative error 1/99 (minimax)
pub const RECIP_0: f32 = f32::from_bits(0x4007c1f4); // 2.121212959289551

/// See the constant above.
pub const RECIP_1: f32 = f32::from_bits(0xbfba2e92); // -1.4545462131500244

/// See the constant above.
pub const RECIP_2: f32 = f32::from_bits(0x3ea57eba); // 0.3232324719429016

/// bits of 2 - 2^-12: from here on 1/m is a formula
pub const RECIP_NEAR_2: u32 = 0x3ffff800;

/// minus half the bits of x: 1/sqrt(x) within 3.5 %
pub const RSQRT_SEED: u32 = 0x5f375a00;

/// second coefficient of 1/sqrt(1 - e)
pub const THREE_EIGHTHS: f32 = f32::from_bits(0x3ec00000); // 0.375

/// lifts small arguments of sqrt
pub const TWO_64: f32 = f32::from_bits(0x5f800000); // 1.8446744073709552e19

/// the lift undone after the root
pub const TWO_M32: f32 = f32::from_bits(0x2f800000); // 2.3283064365386963e-10

/// below it sqrt lifts its argument
pub const TWO_M62: f32 = f32::from_bits(0x20800000); // 2.168404344971009e-19

/// 1/ln 2
pub const LOG2E: f32 = f32::from_bits(0x3fb8aa3b); // 1.4426950216293335

/// 1.5 * 2^23: adding it rounds to an integer
pub const ROUND_MAGIC: f32 = f32::from_bits(0x4b400000); // 12582912.0

/// ln 2
pub const LN2_0: f32 = f32::from_bits(0x3f317218); // 0.6931471824645996

/// ln 2 - LN2_0
pub const LN2_1: f32 = f32::from_bits(0xb102e308); // -1.9046542121259336e-9

/// See the constant above.
pub const EXP_0: f32 = f32::from_bits(0x3efffffe); // 0.4999999403953552

/// See the constant above.
pub const EXP_1: f32 = f32::from_bits(0x3e2aaa46); // 0.16666516661643982

/// See the constant above.
pub const EXP_2: f32 = f32::from_bits(0x3d2aac2c); // 0.04166810214519501

/// See the constant above.
pub const EXP_3: f32 = f32::from_bits(0x3c091ef1); // 0.00836919341236353

/// See the constant above.
pub const EXP_4: f32 = f32::from_bits(0x3ab563bd); // 0.0013838928425684571

/// 88.72283: the largest x whose exp is finite
pub const EXP_HIGH: f32 = f32::from_bits(0x42b17217); // 88.72283172607422

/// -87.33654: the least x whose exp is a normal number
pub const EXP_LOW: f32 = f32::from_bits(0xc2aeac4f); // -87.33654022216797

/// bits of sqrt(1/2): 1 + f lies in [sqrt(1/2), sqrt(2))
pub const SQRT_HALF: u32 = 0x3f3504f3;

/// See the constant above.
pub const LOG_0: f32 = f32::from_bits(0x3eaaaaaa); // 0.3333333134651184

/// See the constant above.
pub const LOG_1: f32 = f32::from_bits(0xbe800114); // -0.250008225440979

/// See the constant above.
pub const LOG_2: f32 = f32::from_bits(0x3e4cd004); // 0.20001226663589478

/// See the constant above.
pub const LOG_3: f32 = f32::from_bits(0xbe2a3922); // -0.16623356938362122

/// See the constant above.
pub const LOG_4: f32 = f32::from_bits(0x3e116d11); // 0.14201761782169342

/// See the constant above.
pub const LOG_5: f32 = f32::from_bits(0xbe06c2a9); // -0.131601944565773

/// See the constant above.
pub const LOG_6: f32 = f32::from_bits(0x3e02ada3); // 0.12761549651622772

/// See the constant above.
pub const LOG_7: f32 = f32::from_bits(0xbd9c5a66); // -0.07634429633617401

/// See the constant above.
pub const EXP2_0: f32 = f32::from_bits(0x3f317218); // 0.6931471824645996

/// See the constant above.
pub const EXP2_1: f32 = f32::from_bits(0x3e75fdee); // 0.24022647738456726

/// See the constant above.
pub const EXP2_2: f32 = f32::from_bits(0x3d6357bd); // 0.05550359562039375

/// See the constant above.
pub const EXP2_3: f32 = f32::from_bits(0x3c1d96e8); // 0.009618498384952545

/// See the constant above.
pub const EXP2_4: f32 = f32::from_bits(0x3aaf84a5); // 0.0013390971580520272

/// See the constant above.
pub const EXP2_5: f32 = f32::from_bits(0x3920be70); // 0.00015329732559621334

/// 2^-25: below it expm1(x) and log1p(x) are x
pub const EXPM1_TINY: f32 = f32::from_bits(0x33000000); // 2.9802322387695313e-8

/// -20: below it expm1 is -1
pub const EXPM1_LOW: f32 = f32::from_bits(0xc1a00000); // -20.0

/// 1/ln 2 - LOG2E
pub const LOG2E_1: f32 = f32::from_bits(0x32a57060); // 1.925963033500011e-8

/// 1/ln 10
pub const LOG10E_0: f32 = f32::from_bits(0x3ede5bd9); // 0.4342944920063019

/// 1/ln 10 - LOG10E_0
pub const LOG10E_1: f32 = f32::from_bits(0xb22d91af); // -1.0103049952192578e-8

/// log10(2)
pub const LOG10_2_0: f32 = f32::from_bits(0x3e9a209b); // 0.3010300099849701

/// log10(2) - LOG10_2_0
pub const LOG10_2_1: f32 = f32::from_bits(0xb2760860); // -1.432098883924482e-8

/// 2^26: beyond it 1 + x is x
pub const LOG1P_HIGH: f32 = f32::from_bits(0x4c800000); // 67108864.0

/// 1/(m + 1) for m in [sqrt(1/2), sqrt(2)], relative error 1.3e-3
pub const POW_RECIP_0: f32 = f32::from_bits(0x3fbd271b); // 1.4777559041976929

/// See the constant above.
pub const POW_RECIP_1: f32 = f32::from_bits(0xbf38f219); // -0.7224441170692444

/// See the constant above.
pub const POW_RECIP_2: f32 = f32::from_bits(0x3def55d0); // 0.11686289310455322

/// 2/ln 2
pub const POW_K_0: f32 = f32::from_bits(0x4038aa3b); // 2.885390043258667

/// 2/ln 2 - POW_K_0
pub const POW_K_1: f32 = f32::from_bits(0x33257060); // 3.851926067000022e-8

/// 2/(3 ln 2)
pub const POW_K3_0: f32 = f32::from_bits(0x3f76384f); // 0.9617967009544373

/// 2/(3 ln 2) - POW_K3_0
pub const POW_K3_1: f32 = f32::from_bits(0xb1f17f01); // -7.028461812552678e-9

/// See the constant above.
pub const POW_LOG_0: f32 = f32::from_bits(0x3f13bb87); // 0.5770801901817322

/// See the constant above.
pub const POW_LOG_1: f32 = f32::from_bits(0x3ed2ddfe); // 0.4118499159812927

/// See the constant above.
pub const POW_LOG_2: f32 = f32::from_bits(0x3eacf6da); // 0.337820827960968

/// bits of 1
pub const ONE: u32 = 0x3f800000;

/// 128: beyond it 2^p is infinite
pub const POW_HIGH: f32 = f32::from_bits(0x43000000); // 128.0

/// -126.5: below it 2^p is zero
pub const POW_LOW: f32 = f32::from_bits(0xc2fd0000); // -126.5

/// beyond it tanh is 1
pub const TANH_HIGH: f32 = f32::from_bits(0x41200000); // 10.0

/// below it tanh(x) and sin(x) are x
pub const TINY_ANGLE: f32 = f32::from_bits(0x39800000); // 0.000244140625

/// erf(x) = x + x P(x^2) below, 1 - exp(-x Q(x)) above
pub const ERF_SPLIT: f32 = f32::from_bits(0x3f600000); // 0.875

/// beyond it erf is 1
pub const ERF_HIGH: f32 = f32::from_bits(0x40800000); // 4.0

/// P, relative error 1.5e-8
pub const ERF_0: f32 = f32::from_bits(0x3e0375d3); // 0.12837915122509003

/// See the constant above.
pub const ERF_1: f32 = f32::from_bits(0xbec09376); // -0.3761250376701355

/// See the constant above.
pub const ERF_2: f32 = f32::from_bits(0x3de70dc3); // 0.11281921714544296

/// See the constant above.
pub const ERF_3: f32 = f32::from_bits(0xbcdb4dc7); // -0.026770485565066338

/// See the constant above.
pub const ERF_4: f32 = f32::from_bits(0x3ba3ce0c); // 0.004998927935957909

/// See the constant above.
pub const ERF_5: f32 = f32::from_bits(0xba1dd2d4); // -0.0006020490545779467

/// Q, error of erf 3.4e-9
pub const ERFC_0: f32 = f32::from_bits(0x3f907386); // 1.1285254955291748

/// See the constant above.
pub const ERFC_1: f32 = f32::from_bits(0x3f22bbf3); // 0.6356803774833679

/// See the constant above.
pub const ERFC_2: f32 = f32::from_bits(0x3dd7ade9); // 0.10531217604875565

/// See the constant above.
pub const ERFC_3: f32 = f32::from_bits(0xbcbbc7d9); // -0.022922443225979805

/// See the constant above.
pub const ERFC_4: f32 = f32::from_bits(0x3b535cfa); // 0.0032251463271677494

/// See the constant above.
pub const ERFC_5: f32 = f32::from_bits(0xb961af06); // -0.00021522873430512846

/// See the constant above.
pub const TWO_OVER_PI: f32 = f32::from_bits(0x3f22f983); // 0.6366197466850281

/// pi/2 in three parts
pub const PIO2_0: f32 = f32::from_bits(0x3fc90fdb); // 1.5707963705062866

/// See the constant above.
pub const PIO2_1: f32 = f32::from_bits(0xb33bbd2e); // -4.371138828673793e-8

/// See the constant above.
pub const PIO2_2: f32 = f32::from_bits(0xa6f72ced); // -1.7151245100058819e-15

/// See the constant above.
pub const SIN_0: f32 = f32::from_bits(0xbe2aaaa3); // -0.16666655242443085

/// See the constant above.
pub const SIN_1: f32 = f32::from_bits(0x3c0883bb); // 0.008332188241183758

/// See the constant above.
pub const SIN_2: f32 = f32::from_bits(0xb94ca97d); // -0.0001951809535967186

/// See the constant above.
pub const COS_0: f32 = f32::from_bits(0x3d2aaaa5); // 0.04166664555668831

/// See the constant above.
pub const COS_1: f32 = f32::from_bits(0xbab60614); // -0.0013887309469282627

/// See the constant above.
pub const COS_2: f32 = f32::from_bits(0x37ccf406); // 2.4432327336398885e-5

/// 2^17: beyond it the reduction multiplies by 2/pi in integers
pub const ANGLE_HIGH: f32 = f32::from_bits(0x48000000); // 131072.0

/// 2/pi = 0.a2f9836e4e44... in hexadecimal
pub const TWO_OVER_PI_WORD_0: u32 = 0xa2f9836e;

/// See the constant above.
pub const TWO_OVER_PI_WORD_1: u32 = 0x4e441529;

/// See the constant above.
pub const TWO_OVER_PI_WORD_2: u32 = 0xfc2757d1;

/// See the constant above.
pub const TWO_OVER_PI_WORD_3: u32 = 0xf534ddc0;

/// See the constant above.
pub const TWO_OVER_PI_WORD_4: u32 = 0xdb629599;

/// See the constant above.
pub const TWO_OVER_PI_WORD_5: u32 = 0x3c439041;

/// See the constant above.
pub const TWO_OVER_PI_WORD_6: u32 = 0xfe5163ab;

/// See the constant above.
pub const TAN_0: f32 = f32::from_bits(0x3eaaaab0); // 0.33333349227905273

/// See the constant above.
pub const TAN_1: f32 = f32::from_bits(0x3e0886cf); // 0.13332675397396088

/// See the constant above.
pub const TAN_2: f32 = f32::from_bits(0x3d5d6ce1); // 0.05405891314148903

/// See the constant above.
pub const TAN_3: f32 = f32::from_bits(0x3cae606a); // 0.02128620818257332

/// See the constant above.
pub const TAN_4: f32 = f32::from_bits(0x3c316583); // 0.010827424935996532

/// See the constant above.
pub const TAN_5: f32 = f32::from_bits(0x38ce2fc3); // 9.831741772359237e-5

/// See the constant above.
pub const TAN_6: f32 = f32::from_bits(0x3b8f4846); // 0.004372629337012768

/// See the constant above.
pub const ASIN_0: f32 = f32::from_bits(0x3e2aaad6); // 0.16666731238365173

/// See the constant above.
pub const ASIN_1: f32 = f32::from_bits(0x3d998467); // 0.07495956867933273

/// See the constant above.
pub const ASIN_2: f32 = f32::from_bits(0x3d39f6eb); // 0.045401494950056076

/// See the constant above.
pub const ASIN_3: f32 = f32::from_bits(0x3cc88121); // 0.024475635960698128

/// See the constant above.
pub const ASIN_4: f32 = f32::from_bits(0x3d2ade44); // 0.04171587526798248

/// See the constant above.
pub const ATAN_0: f32 = f32::from_bits(0xbeaaaaa4); // -0.3333331346511841

/// See the constant above.
pub const ATAN_1: f32 = f32::from_bits(0x3e4cc9ef); // 0.19998906552791595

/// See the constant above.
pub const ATAN_2: f32 = f32::from_bits(0xbe121994); // -0.14267569780349731

/// See the constant above.
pub const ATAN_3: f32 = f32::from_bits(0x3de09f43); // 0.10967876762151718

/// See the constant above.
pub const ATAN_4: f32 = f32::from_bits(0xbdacf76d); // -0.08445630222558975

/// See the constant above.
pub const ATAN_5: f32 = f32::from_bits(0x3d7027f9); // 0.05863187089562416

/// See the constant above.
pub const ATAN_6: f32 = f32::from_bits(0xbd024d73); // -0.031812142580747604

/// See the constant above.
pub const ATAN_7: f32 = f32::from_bits(0x3c38230b); // 0.011238823644816875

/// See the constant above.
pub const ATAN_8: f32 = f32::from_bits(0xbaf432c0); // -0.0018630847334861755

/// pi
pub const PI_0: f32 = f32::from_bits(0x40490fdb); // 3.1415927410125732

/// pi - PI_0
pub const PI_1: f32 = f32::from_bits(0xb3bbbd2e); // -8.742277657347586e-8

/// See the constant above.
pub const SINH_0: f32 = f32::from_bits(0x3e2aaaab); // 0.1666666716337204

/// See the constant above.
pub const SINH_1: f32 = f32::from_bits(0x3c08886c); // 0.008333306759595871

/// See the constant above.
pub const SINH_2: f32 = f32::from_bits(0x395013fe); // 0.00019843873451463878

/// See the constant above.
pub const SINH_3: f32 = f32::from_bits(0x363a4c53); // 2.7760586363001494e-6

/// 89.415985: the largest x whose cosh is finite
pub const COSH_HIGH: f32 = f32::from_bits(0x42b2d4fc); // 89.41598510742188

/// See the constant above.
pub const PHILOX_M0: u32 = 0xd2511f53;

/// See the constant above.
pub const PHILOX_M1: u32 = 0xcd9e8d57;

/// See the constant above.
pub const PHILOX_W0: u32 = 0x9e3779b9;

/// See the constant above.
pub const PHILOX_W1: u32 = 0xbb67ae85;

/// a 24-bit integer to [0, 1)
pub const TWO_M24: f32 = f32::from_bits(0x33800000); // 5.960464477539063e-8

/// 2 pi
pub const TWO_PI: f32 = f32::from_bits(0x40c90fdb); // 6.2831854820251465

/// 1/sqrt(2): GELU
pub const INV_SQRT_2: f32 = f32::from_bits(0x3f3504f3); // 0.7071067690849304

/// 1/sqrt(2 pi): GELU's derivative
pub const INV_SQRT_2PI: f32 = f32::from_bits(0x3ecc422a); // 0.3989422917366028

/// sqrt(2/pi): GELU by tanh
pub const SQRT_2_OVER_PI: f32 = f32::from_bits(0x3f4c422a); // 0.7978845834732056

/// GELU by tanh
pub const GELU_CUBIC: f32 = f32::from_bits(0x3d372713); // 0.044714998453855515
