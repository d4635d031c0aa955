// What every optimizer reads besides its tensors: the numbers of the step, in the order of
// Hyper::to_words (crates/hlx-kernels/src/optimizer.rs), and the factor that clips the gradient.

layout(set = 0, binding = 1) readonly restrict buffer HyperWords { float hyper[]; };
layout(set = 0, binding = 2) readonly restrict buffer Clip { float clip[]; };

#define NEGATIVE_RATE hyper[0]      // -lr
#define MOMENTUM hyper[1]           // mu
#define WEIGHT_DECAY hyper[2]       // lambda
#define KEEP hyper[3]               // 1 - lr lambda
#define ONE_MINUS_BETA1 hyper[4]    // 1 - beta1
#define BETA2 hyper[5]              // beta2
#define ONE_MINUS_BETA2 hyper[6]    // 1 - beta2
#define NEGATIVE_STEP hyper[7]      // -lr / (1 - beta1^t)
#define INVERSE_ROOT hyper[8]       // 1 / sqrt(1 - beta2^t)
#define EPSILON hyper[9]            // eps
#define CLIP clip[0]
