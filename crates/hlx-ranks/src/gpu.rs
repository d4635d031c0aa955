//! The GPU as CUDA's driver knows it: its stream of copies, imported memory and timelines, and times.

use std::fs::File;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUcontext, CUevent, CUexternalMemory, CUexternalSemaphore, CUresult, CUstream,
};

use crate::{RankError, Result};

/// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD` and `.._DEDICATED`.
const DEDICATED: u32 = 1;
/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;

/// A GPU.
pub(super) struct Cuda {
    context: CUcontext,
    /// Of copies.
    stream: CUstream,
    /// Of moments that no copy waits for.
    clock: CUstream,
}

// SAFETY: handles of the driver are valid on every thread on which the context is current, and each call
// here makes it so first.
unsafe impl Send for Cuda {}

/// Imported device memory. It stays imported until the process ends, as NCCL may know its address.
pub struct CudaMemory {
    address: u64,
    bytes: usize,
}

impl CudaMemory {
    /// The address of a range of bytes; none if it does not lie in the memory.
    pub(super) fn address(&self, range: &Range<usize>) -> Option<u64> {
        let is_inside = range.start <= range.end && range.end <= self.bytes;
        is_inside.then(|| self.address + range.start as u64)
    }
}

/// An imported timeline semaphore.
pub struct CudaTimeline(CUexternalSemaphore);

// SAFETY: as for `Cuda`.
unsafe impl Send for CudaTimeline {}

/// When something was done on a GPU's stream of copies. Clones are the same moment.
#[derive(Clone)]
pub struct Moment(Arc<Event>);

struct Event(CUevent);

// SAFETY: as for `Cuda`.
unsafe impl Send for Event {}
// SAFETY: the driver's calls about an event may come from several threads.
unsafe impl Sync for Event {}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is this one's own; the driver frees it when it is done.
        unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}

impl Moment {
    /// The milliseconds from an earlier moment to this one; none while the GPU has not come to both.
    pub fn ms_since(&self, earlier: &Self) -> Option<f64> {
        let mut found = 0.0;
        // SAFETY: both events are alive, and the pointer is to a local.
        let code = unsafe { sys::cuEventElapsedTime(&raw mut found, earlier.0.0, self.0.0) };
        (code == CUresult::CUDA_SUCCESS).then_some(f64::from(found))
    }
}

fn check(during: &str, code: CUresult) -> Result<()> {
    match code {
        CUresult::CUDA_SUCCESS => Ok(()),
        other => Err(RankError::start("CUDA", format!("{during}: {other:?}"))),
    }
}

impl Cuda {
    /// Opens the driver and finds the GPU of this UUID.
    pub fn open(uuid: [u8; 16]) -> Result<Self> {
        // SAFETY: opening the driver's library has no conditions.
        if !unsafe { sys::is_culib_present() } {
            return Err(RankError::start("CUDA", "its driver is not installed"));
        }
        // SAFETY: the pointers of all calls are to locals; `cuInit` comes first.
        unsafe {
            check("start", sys::cuInit(0))?;
            let mut count = 0;
            check("count the GPUs", sys::cuDeviceGetCount(&raw mut count))?;
            for ordinal in 0..count {
                let (mut device, mut found) = (0, MaybeUninit::<sys::CUuuid>::zeroed());
                check("name a GPU", sys::cuDeviceGet(&raw mut device, ordinal))?;
                check(
                    "name a GPU",
                    sys::cuDeviceGetUuid_v2(found.as_mut_ptr(), device),
                )?;
                if found.assume_init().bytes.map(|byte| byte as u8) == uuid {
                    return Self::of(device);
                }
            }
        }
        Err(RankError::start(
            "CUDA",
            "does not know the GPU of the Vulkan device",
        ))
    }

    /// # Safety
    /// The driver is started, and the device one of its.
    unsafe fn of(device: sys::CUdevice) -> Result<Self> {
        let (mut context, mut streams) = (ptr::null_mut(), [ptr::null_mut(); 2]);
        // SAFETY: the pointers are to locals.
        unsafe {
            let retained = sys::cuDevicePrimaryCtxRetain(&raw mut context, device);
            check("open the GPU", retained)?;
            check("open the GPU", sys::cuCtxSetCurrent(context))?;
            for stream in &mut streams {
                let made = sys::cuStreamCreate(stream, NON_BLOCKING);
                check("make a stream", made)?;
            }
        }
        let [stream, clock] = streams;
        Ok(Self {
            context,
            stream,
            clock,
        })
    }

    /// Makes the GPU the one that this thread's calls are about.
    pub fn make_current(&self) -> Result<()> {
        // SAFETY: the context is retained.
        check("use the GPU", unsafe { sys::cuCtxSetCurrent(self.context) })
    }

    /// The stream of copies, as NCCL takes it.
    pub fn stream(&self) -> *mut std::ffi::c_void {
        self.stream.cast()
    }

    pub fn import_memory(&self, file: File, bytes: u64) -> Result<CudaMemory> {
        self.make_current()?;
        let mut memory: CUexternalMemory = ptr::null_mut();
        let mut address = 0;
        // SAFETY: zeros are valid for all fields but the kind, which is written before it is read; after
        // the import the descriptor is the driver's.
        unsafe {
            let mut info = MaybeUninit::<sys::CUDA_EXTERNAL_MEMORY_HANDLE_DESC>::zeroed();
            let info_at = info.as_mut_ptr();
            (&raw mut (*info_at).type_)
                .write(sys::CUexternalMemoryHandleType::CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD);
            (&raw mut (*info_at).handle.fd).write(file.as_raw_fd());
            (&raw mut (*info_at).size).write(bytes);
            (&raw mut (*info_at).flags).write(DEDICATED);
            let imported = sys::cuImportExternalMemory(&raw mut memory, info_at);
            check("import memory", imported)?;
            let _ = file.into_raw_fd();
            let mut window = MaybeUninit::<sys::CUDA_EXTERNAL_MEMORY_BUFFER_DESC>::zeroed();
            (&raw mut (*window.as_mut_ptr()).size).write(bytes);
            let mapped =
                sys::cuExternalMemoryGetMappedBuffer(&raw mut address, memory, window.as_ptr());
            check("map imported memory", mapped)?;
        }
        let bytes = bytes as usize;
        Ok(CudaMemory { address, bytes })
    }

    pub fn import_timeline(&self, file: File) -> Result<CudaTimeline> {
        use sys::CUexternalSemaphoreHandleType as Kind;
        self.make_current()?;
        let mut timeline: CUexternalSemaphore = ptr::null_mut();
        // SAFETY: as for memory.
        unsafe {
            let mut info = MaybeUninit::<sys::CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC>::zeroed();
            let info_at = info.as_mut_ptr();
            (&raw mut (*info_at).type_)
                .write(Kind::CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD);
            (&raw mut (*info_at).handle.fd).write(file.as_raw_fd());
            let imported = sys::cuImportExternalSemaphore(&raw mut timeline, info_at);
            check("import a timeline", imported)?;
        }
        let _ = file.into_raw_fd();
        Ok(CudaTimeline(timeline))
    }

    pub fn raise(&self, timeline: &CudaTimeline, value: u64) -> Result<()> {
        self.make_current()?;
        // SAFETY: zeros are valid for all fields; the timeline is imported.
        let code = unsafe {
            let mut parameters =
                MaybeUninit::<sys::CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS>::zeroed().assume_init();
            parameters.params.fence.value = value;
            sys::cuSignalExternalSemaphoresAsync(
                &raw const timeline.0,
                &raw const parameters,
                1,
                self.stream,
            )
        };
        check("raise a timeline", code)
    }

    pub fn moment(&self) -> Result<Moment> {
        self.make_current()?;
        Self::moment_on(self.stream)
    }

    pub fn now(&self) -> Result<Moment> {
        self.make_current()?;
        Self::moment_on(self.clock)
    }

    fn moment_on(stream: CUstream) -> Result<Moment> {
        let mut event = ptr::null_mut();
        // SAFETY: the pointer is to a local, the stream one of the current GPU.
        unsafe {
            check("note a moment", sys::cuEventCreate(&raw mut event, 0))?;
            let event = Event(event);
            check("note a moment", sys::cuEventRecord(event.0, stream))?;
            Ok(Moment(Arc::new(event)))
        }
    }
}
