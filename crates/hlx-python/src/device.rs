//! `hlx.device`: the name of a device, and the devices that are open.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};

use hlx_core::{Arithmetic, CoreError, Device};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{Argument, Whole};
use crate::error::{of_core, type_error, value_error};
use crate::fork;
use crate::wait::wait_for_threads;

/// A device by its name: `cpu`, `vulkan`, `vulkan:N` or `auto`, and the arithmetic of its products.
#[pyclass(frozen, name = "device", module = "hlx", eq, hash)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PyDevice {
    /// `auto` and `vulkan` without a number are found when a device is opened.
    selector: String,
    arithmetic: Arithmetic,
}

/// The devices that are open, by name.
fn opened() -> &'static RwLock<HashMap<PyDevice, Device>> {
    static OPENED: OnceLock<RwLock<HashMap<PyDevice, Device>>> = OnceLock::new();
    OPENED.get_or_init(RwLock::default)
}

/// The default of all threads.
static DEFAULT: Mutex<Option<PyDevice>> = Mutex::new(None);

thread_local! {
    /// The devices of `with hlx.device(..)` on this thread, the innermost last.
    static WITHIN: RefCell<Vec<PyDevice>> = const { RefCell::new(Vec::new()) };
}

impl PyDevice {
    fn parse(name: &str, arithmetic: Option<&str>) -> PyResult<Self> {
        let arithmetic = match arithmetic {
            None => Arithmetic::Portable,
            Some(name) => name.parse().map_err(|_| {
                let expected = "portable, integer, fast or fast_f16";
                value_error(format!(
                    "device: arithmetic is {name:?}, expected {expected}"
                ))
            })?,
        };
        let index = |text: &str| text.parse::<usize>().is_ok();
        let known = ["cpu", "vulkan", "auto"].contains(&name)
            || name.strip_prefix("vulkan:").is_some_and(index);
        let selector = match name {
            "cpu:0" => "cpu".to_owned(),
            name if known => name.to_owned(),
            name => {
                let found = name.to_owned();
                return Err(of_core(CoreError::UnknownDevice { found }));
            }
        };
        Ok(Self {
            selector,
            arithmetic,
        })
    }

    /// The CPU device.
    pub fn cpu() -> Self {
        Self {
            selector: "cpu".to_owned(),
            arithmetic: Arithmetic::Portable,
        }
    }

    /// The name of an open device.
    pub fn of(device: &Device) -> Self {
        Self {
            selector: device.info().selector.clone(),
            arithmetic: device.arithmetic(),
        }
    }

    /// What an argument `device=` names: a device or its text; `None` is the default.
    pub fn from_argument(argument: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(argument) = argument.filter(|argument| !argument.is_none()) else {
            return Ok(Self::default_here());
        };
        if let Ok(device) = argument.cast::<Self>() {
            return Ok(device.get().clone());
        }
        match argument.extract::<&str>() {
            Ok(name) => Self::parse(name, None),
            Err(_) => {
                let found = argument.get_type().name()?;
                Err(type_error(format!(
                    "device: is a {found}, expected hlx.device or a name"
                )))
            }
        }
    }

    /// As [`PyDevice::from_argument`], but nothing where neither an argument nor a default names one.
    pub fn chosen(argument: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Self>> {
        if argument.is_some_and(|argument| !argument.is_none()) {
            return Self::from_argument(argument).map(Some);
        }
        let within = WITHIN.with_borrow(|within| within.last().cloned());
        let default = || {
            DEFAULT
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        };
        Ok(within.or_else(default))
    }

    /// What its products are computed in.
    pub fn arithmetic_of_products(&self) -> Arithmetic {
        self.arithmetic
    }

    /// Opens the device apart from the one that tensors are on: with queues and memory of its own.
    pub fn open_apart(&self) -> Result<Device, CoreError> {
        Device::open(&self.selector)?.in_arithmetic(self.arithmetic)
    }

    fn default_here() -> Self {
        if let Some(innermost) = WITHIN.with_borrow(|within| within.last().cloned()) {
            return innermost;
        }
        let default = DEFAULT.lock().unwrap_or_else(PoisonError::into_inner);
        default.clone().unwrap_or_else(Self::cpu)
    }

    /// The device itself, opened at the first call.
    pub fn open(&self, py: Python<'_>) -> PyResult<Device> {
        fork::check()?;
        {
            let known = opened().read().unwrap_or_else(PoisonError::into_inner);
            if let Some(device) = known.get(self) {
                return Ok(device.clone());
            }
        }
        py.detach(|| self.open_now()).map_err(of_core)
    }

    fn open_now(&self) -> Result<Device, CoreError> {
        // Held while a device is opened, so that two threads do not open it twice.
        let mut known = opened().write().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = known.get(self) {
            return Ok(device.clone());
        }
        let plain = Self {
            arithmetic: Arithmetic::Portable,
            ..self.clone()
        };
        let device = match known.get(&plain) {
            Some(device) => device.clone(),
            None => {
                let device = Device::open(&self.selector)?;
                let named = Self::of(&device);
                // `vulkan` may be a device that is open as `vulkan:0`.
                known.entry(named).or_insert(device).clone()
            }
        };
        fork::opened();
        known.insert(plain, device.clone());
        if self.arithmetic == Arithmetic::Portable {
            return Ok(device);
        }
        let device = device.in_arithmetic(self.arithmetic)?;
        known.insert(self.clone(), device.clone());
        known.insert(Self::of(&device), device.clone());
        Ok(device)
    }
}

#[pymethods]
impl PyDevice {
    /// The device of this name; it is opened when it is first used. `arithmetic` is `"portable"`, `"integer"`,
    /// `"fast"` (bf16) or `"fast_f16"`.
    #[new]
    #[pyo3(signature = (name, index = None, *, arithmetic = None))]
    fn new(
        name: &Bound<'_, PyAny>,
        index: Option<Whole>,
        arithmetic: Option<&str>,
    ) -> PyResult<Self> {
        let index = Option::<usize>::of(index, "device", "index")?;
        if let Ok(device) = name.cast::<Self>() {
            let device = device.get();
            return match (index, arithmetic) {
                (None, None) => Ok(device.clone()),
                _ => Self::parse(&device.selector, arithmetic),
            };
        }
        let name: String = name
            .extract()
            .map_err(|_| type_error("device: expected a name"))?;
        match index {
            Some(index) if name == "vulkan" => Self::parse(&format!("vulkan:{index}"), arithmetic),
            Some(0) | None => Self::parse(&name, arithmetic),
            Some(index) => Err(value_error(format!("device: {name} has no index {index}"))),
        }
    }

    /// `cpu`, `vulkan` or `auto`.
    #[getter]
    fn r#type(&self) -> &str {
        self.selector.split(':').next().unwrap_or_default()
    }

    /// The number of the Vulkan device, if it was named.
    #[getter]
    fn index(&self) -> Option<usize> {
        self.selector.split(':').nth(1)?.parse().ok()
    }

    /// How products are computed: `portable`, `integer`, `fast` or `fast_f16`.
    #[getter]
    fn arithmetic(&self) -> &'static str {
        self.arithmetic.name()
    }

    /// The name of the hardware; opens the device.
    #[getter]
    fn hardware(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.open(py)?.info().name.clone())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        WITHIN.with_borrow_mut(|within| within.push(slf.get().clone()));
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        WITHIN.with_borrow_mut(Vec::pop);
    }

    fn __str__(&self) -> String {
        self.selector.clone()
    }

    fn __repr__(&self) -> String {
        let mut text = format!("device(type='{}'", self.r#type());
        if let Some(index) = self.index() {
            text += &format!(", index={index}");
        }
        if self.arithmetic != Arithmetic::Portable {
            text += &format!(", arithmetic='{}'", self.arithmetic);
        }
        text + ")"
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // A keyword needs a function that takes it.
        let arguments = PyDict::new(py);
        arguments.set_item("arithmetic", self.arithmetic())?;
        let class = py.get_type::<Self>();
        let partial = py.import("functools")?.getattr("partial")?;
        let made = partial.call((class,), Some(&arguments))?;
        (made, (&self.selector,))
            .into_pyobject(py)
            .map(Bound::into_any)
    }
}

/// The device of new tensors where none is named.
///
/// It is that of the innermost `with hlx.device(..)` of this thread, or of `set_default_device`, or the CPU.
#[pyfunction]
pub fn get_default_device() -> PyDevice {
    PyDevice::default_here()
}

/// Sets the device of new tensors for all threads; `None` is the CPU.
#[pyfunction]
#[pyo3(signature = (device))]
pub fn set_default_device(device: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let named = match device.filter(|device| !device.is_none()) {
        Some(device) => Some(PyDevice::from_argument(Some(device))?),
        None => None,
    };
    *DEFAULT.lock().unwrap_or_else(PoisonError::into_inner) = named;
    Ok(())
}

/// The bytes that HLX holds on a device.
#[pyfunction]
#[pyo3(signature = (device = None))]
pub fn memory(py: Python<'_>, device: Option<&Bound<'_, PyAny>>) -> PyResult<u64> {
    Ok(PyDevice::from_argument(device)?.open(py)?.held_bytes())
}

/// Waits until a device has done all its work.
#[pyfunction]
#[pyo3(signature = (device = None))]
pub fn synchronize(py: Python<'_>, device: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let device = PyDevice::from_argument(device)?.open(py)?;
    crate::wait::wait(py, &device.clone(), move || Ok(device.sync()?))
}

/// The names of this machine's devices and of their hardware.
#[pyfunction]
pub fn devices(py: Python<'_>) -> Vec<(String, String)> {
    let devices = py.detach(Device::devices);
    devices
        .into_iter()
        .map(|info| (info.selector, info.name))
        .collect()
}

/// Gives memory that no tensor uses back to a device.
#[pyfunction]
#[pyo3(signature = (device = None))]
pub fn empty_cache(py: Python<'_>, device: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let device = PyDevice::from_argument(device)?.open(py)?;
    py.detach(|| device.trim_memory());
    Ok(())
}

/// Waits for all devices before the process ends, as a driver may crash if its work goes on meanwhile. A second Ctrl-C
/// ends this wait, too.
#[pyfunction]
pub fn finish(py: Python<'_>) -> PyResult<()> {
    if fork::check().is_err() {
        return Ok(());
    }
    let devices: Vec<Device> = {
        let known = opened().read().unwrap_or_else(PoisonError::into_inner);
        known
            .values()
            .filter(|device| !device.is_cpu())
            .cloned()
            .collect()
    };
    for device in devices {
        // What it reports now concerns nobody.
        let synchronized = crate::wait::wait(py, &device.clone(), move || Ok(device.sync()?));
        if let Err(error) = synchronized
            && error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py)
        {
            return Err(error);
        }
    }
    wait_for_threads(py)
}
