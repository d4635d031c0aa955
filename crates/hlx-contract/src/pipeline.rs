//! Contract 902: a pipeline, and what is wrong with one by itself.

use serde::{Deserialize, Serialize};

use super::ContractError;
use super::kernel::{Input, Kernel, Output, check_name};
use super::scalar::Number;

/// Kernels in order, and the buffers that link them (contract 902).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    /// 902.
    pub contract: Number<902>,
    /// Its name in messages.
    pub name: String,
    /// The kernels, in the order that they run in.
    pub kernels: Vec<Kernel>,
    /// Outputs that later kernels read, in ascending order of the inputs.
    pub links: Vec<Link>,
    /// The outputs that come out of it.
    pub outputs: Vec<Port>,
}

/// A buffer that one kernel makes and a later one reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// An output.
    pub from: Port,
    /// An input without a tensor of its own.
    pub to: Port,
}

/// An input or output of one of a pipeline's kernels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// The kernel's place in the list, from 0.
    pub kernel: u32,
    /// The name of its input or output.
    pub name: String,
}

impl Port {
    /// Makes a port.
    pub fn new(kernel: u32, name: &str) -> Self {
        let name = name.to_owned();
        Self { kernel, name }
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` of kernel {}", self.name, self.kernel)
    }
}

impl Pipeline {
    /// Makes a pipeline.
    pub fn new(name: &str, kernels: Vec<Kernel>, links: Vec<Link>, outputs: Vec<Port>) -> Self {
        Self {
            contract: Number,
            name: name.to_owned(),
            kernels,
            links,
            outputs,
        }
    }

    /// The pipeline of one kernel, with all its outputs.
    pub(crate) fn of(kernel: &Kernel) -> Self {
        let outputs = kernel
            .outputs
            .iter()
            .map(|output| Port::new(0, &output.name));
        Self::new(
            &kernel.name,
            vec![kernel.clone()],
            Vec::new(),
            outputs.collect(),
        )
    }

    pub(crate) fn output(&self, port: &Port) -> Option<&Output> {
        let kernel = self.kernels.get(port.kernel as usize)?;
        kernel
            .outputs
            .iter()
            .find(|output| output.name == port.name)
    }

    fn input(&self, port: &Port) -> Option<&Input> {
        let kernel = self.kernels.get(port.kernel as usize)?;
        kernel.inputs.iter().find(|input| input.name == port.name)
    }

    /// Checks what can be seen without the shaders.
    pub(crate) fn check(&self) -> Result<(), ContractError> {
        check_name("a pipeline", &self.name)?;
        self.kernels.iter().try_for_each(Kernel::check)?;
        if self.links.windows(2).any(|pair| pair[0].to >= pair[1].to) {
            return self.wrong("links are not in ascending order of their inputs");
        }
        self.links
            .iter()
            .try_for_each(|link| self.check_link(link))?;
        for (place, kernel) in self.kernels.iter().enumerate() {
            for input in kernel.inputs.iter().filter(|input| input.tensor.is_none()) {
                let port = Port::new(place as u32, &input.name);
                if !self.links.iter().any(|link| link.to == port) {
                    return self.wrong(format!("input {port} has neither a tensor nor a link"));
                }
            }
        }
        for (place, port) in self.outputs.iter().enumerate() {
            if self.output(port).is_none() {
                return self.wrong(format!("there is no output {port}"));
            }
            if self.outputs[..place].contains(port) {
                return self.wrong(format!("output {port} is named twice"));
            }
        }
        if self.outputs.is_empty() {
            return self.wrong("no outputs");
        }
        Ok(())
    }

    fn check_link(&self, link: &Link) -> Result<(), ContractError> {
        let (from, to) = (&link.from, &link.to);
        let Some(output) = self.output(from) else {
            return self.wrong(format!("a link from {from}, which is no output"));
        };
        let Some(input) = self.input(to) else {
            return self.wrong(format!("a link to {to}, which is no input"));
        };
        if from.kernel >= to.kernel {
            return self.wrong(format!("a link from {from} back to {to}"));
        }
        if input.tensor.is_some() {
            return self.wrong(format!("input {to} has a tensor and a link"));
        }
        if output.dtype != input.dtype || output.shape != input.shape {
            let (found, shape) = (output.dtype, &output.shape);
            return self.wrong(format!(
                "a link from {from}, {found} {shape:?}, to {to}, {} {:?}",
                input.dtype, input.shape
            ));
        }
        Ok(())
    }

    fn wrong<T>(&self, reason: impl Into<String>) -> Result<T, ContractError> {
        Err(ContractError::invalid(&self.name, reason))
    }
}
