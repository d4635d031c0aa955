//! Both kinds of norm on every device, against f64.

mod layer;
mod rms;
