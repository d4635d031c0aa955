//! A kernel of your own: a shader with its push constants, and its twin on the CPU.
//!
//! `cargo run --release --example 07_own_kernel`; `HLX_DEVICE=cpu` or `vulkan:0` selects the device.
#![allow(clippy::print_stdout)] // An example shows what it computes.

use hlx::device::{Binding, Buffer, CoreError, Device, Launch, Shader, push_bytes};

/// `vulkano_shaders` reads the module at compile time: the push-constant block becomes the struct `Push`.
#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks)]
mod axpy {
    vulkano_shaders::shader! {
        bytes: "axpy.spv",
        custom_derives: [Clone, Copy, bytemuck::NoUninit],
    }
}

/// `axpy.comp`, compiled by `cargo xtask shaders`; `glslangValidator -V` does it as well.
// SAFETY: the module is valid, and reads and writes below the count that it is given.
static AXPY: Shader = unsafe { Shader::new("axpy", include_bytes!("axpy.spv")) };

/// Computes `y = a x + y`, on a Vulkan device by the shader and on the CPU device by the closure.
fn axpy(device: &Device, a: f32, x: &Buffer, y: &Buffer) -> Result<(), CoreError> {
    // The shader reads as many elements of both as its push constants say.
    assert_eq!(x.len(), y.len());
    let push = axpy::Push {
        count: u32::try_from(y.len()).expect("fewer than 2^32 elements"),
        a,
    };
    let launch = Launch {
        name: "axpy",
        shader: &AXPY,
        specialization: &[],
        bindings: &[Binding::Read(x), Binding::ReadWrite(y)],
        push: push_bytes(&push),
        groups: hlx::device::groups_1d(y.len().div_ceil(64)),
    };
    device.launch(launch, move |bindings| {
        let ([x], [y]) = bindings.split();
        for (y, x) in y.iter_mut().zip(x) {
            *y += a * x;
        }
    })
}

fn main() -> Result<(), CoreError> {
    let sums = show(&Device::open_from_env("auto")?)?;
    println!("{:?} ..", &sums[..4]);
    Ok(())
}

fn show(device: &Device) -> Result<Vec<f32>, CoreError> {
    let x: Vec<f32> = (0..1000).map(|i| 0.1 * i as f32).collect();
    let (x, y) = (device.buffer_of(&x)?, device.buffer_of(&[1.0; 1000])?);
    axpy(device, 0.3, &x, &y)?;
    // A recorded graph takes it like HLX's own kernels, and orders what depends on it.
    let (graph, ()) = device.record(|| axpy(device, -0.1, &x, &y))?;
    graph.replay()?;
    device.download::<f32>(&y)
}

#[test]
fn the_shader_has_the_bits_of_the_cpu() -> Result<(), CoreError> {
    let bits = |device| {
        Ok(show(device)?
            .into_iter()
            .map(f32::to_bits)
            .collect::<Vec<_>>())
    };
    let devices = hlx::device::testing::devices();
    let results = devices
        .iter()
        .map(bits)
        .collect::<Result<Vec<_>, CoreError>>()?;
    assert!(results.iter().all(|result| *result == results[0]));
    Ok(())
}
