//! One matrix product whose operands every program of a comparison can make: its latency and its bits.

use std::time::Instant;

use anyhow::Result;
use hlx_core::digest::sha256_hex;
use hlx_core::{Buffer, Device, Graph};
use hlx_kernels::product::{MatMul, matmul};

use crate::maker::Maker;
use crate::measure::{Ready, keeping_unread};

/// C \[M, N\] = A \[M, K\] B \[K, N\], with values spread over -1 to 1.
pub struct Product {
    device: Device,
    operands: [Buffer; 2],
    result: Buffer,
    shape: MatMul,
}

impl Product {
    /// Makes the operands.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(device: &Device, [m, n, k]: [usize; 3]) -> Result<Self> {
        let make = Maker(device);
        Ok(Self {
            device: device.clone(),
            operands: [make.values(m * k)?, make.values(k * n)?],
            result: make.empty(m * n)?,
            shape: MatMul::new(m, n, k),
        })
    }

    /// The launches, for a clock of the device.
    pub fn ready(&self) -> Ready {
        let (device, [a, b], c) = (
            self.device.clone(),
            self.operands.clone(),
            self.result.clone(),
        );
        let shape = self.shape;
        Ready::Launches(Box::new(move || matmul(&device, &a, &b, None, &c, &shape)))
    }

    /// Milliseconds of each of many products by the host's clock: launched, and waited for.
    ///
    /// # Errors
    /// What the device reports.
    pub fn latencies(&self, runs: usize) -> Result<Vec<f64>> {
        let graph = self.graph()?;
        let run = || -> Result<()> {
            graph.replay()?;
            Ok(self.device.sync()?)
        };
        crate::measure::warm_up(&self.device, run)?;
        let mut times = Vec::with_capacity(runs);
        for _ in 0..runs {
            let start = Instant::now();
            run()?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        Ok(times)
    }

    /// Computes the product again and again for some seconds, and gives the milliseconds of one.
    ///
    /// # Errors
    /// What the device reports.
    pub fn busy(&self, seconds: f64) -> Result<f64> {
        let graph = self.graph()?;
        let (start, mut count) = (Instant::now(), 0_u32);
        while count == 0 || start.elapsed().as_secs_f64() < seconds {
            for _ in 0..8 {
                graph.replay()?;
            }
            self.device.sync()?;
            count += 8;
        }
        Ok(start.elapsed().as_secs_f64() * 1e3 / f64::from(count))
    }

    /// SHA-256 of the result's bytes.
    ///
    /// # Errors
    /// What the device reports.
    pub fn digest(&self) -> Result<String> {
        self.graph()?.replay()?;
        let values = self.device.download::<f32>(&self.result)?;
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        Ok(sha256_hex(&bytes))
    }

    fn graph(&self) -> Result<Graph> {
        let [a, b] = &self.operands;
        let device = keeping_unread(&self.device)?;
        let record = || matmul(&device, a, b, None, &self.result, &self.shape);
        Ok(device.record(record)?.0)
    }
}
