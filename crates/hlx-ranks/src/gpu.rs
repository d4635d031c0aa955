//! The GPU as CUDA's driver knows it: its stream of copies, memory and timelines that it shares, and times.
//!
//! The driver is opened when the program runs. What is opened stays open until the process ends.

use std::fs::File;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ptr;

use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUevent, CUexternalMemory, CUexternalSemaphore, CUmemAccess_flags,
    CUmemAccessDesc, CUmemAllocationHandleType as Handle, CUmemAllocationProp,
    CUmemGenericAllocationHandle, CUmemLocationType, CUresult, CUstream,
};

use crate::{RankError, Result};

/// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD` and `.._DEDICATED`.
const DEDICATED: u32 = 1;
/// How memory is exported to others than Vulkan's own driver.
const POSIX: Handle = Handle::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// What names a GPU: Vulkan's `deviceUUID`.
pub type Uuid = [u8; 16];

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;

/// A rank's GPU. Clones are the same one.
#[derive(Clone)]
pub struct Gpu {
    device: CUdevice,
    uuid: Uuid,
    context: CUcontext,
    /// The stream of copies.
    stream: CUstream,
    /// The stream of moments that no copy waits for.
    clock: CUstream,
}

// SAFETY: handles of the driver are valid on every thread on which the context is current, and each call
// here makes it so first.
unsafe impl Send for Gpu {}

/// Device memory that CUDA and others know. It stays until the process ends, as NCCL may know its address.
pub struct CudaMemory {
    address: u64,
    bytes: usize,
}

impl CudaMemory {
    /// How many bytes it has.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// The address of a range of bytes; none if it does not lie in the memory.
    pub(crate) fn address(&self, range: &Range<usize>) -> Option<u64> {
        let is_inside = range.start <= range.end && range.end <= self.bytes;
        is_inside.then(|| self.address + range.start as u64)
    }
}

/// An imported timeline semaphore.
pub struct CudaTimeline(CUexternalSemaphore);

// SAFETY: as for `Gpu`.
unsafe impl Send for CudaTimeline {}

/// When something was done on a GPU's stream of copies.
pub struct Moment(CUevent);

// SAFETY: as for `Gpu`.
unsafe impl Send for Moment {}

impl Drop for Moment {
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
        let code = unsafe { sys::cuEventElapsedTime(&raw mut found, earlier.0, self.0) };
        (code == CUresult::CUDA_SUCCESS).then_some(f64::from(found))
    }
}

/// The driver's device of this UUID.
fn device_of(uuid: Uuid) -> Result<Option<CUdevice>> {
    let mut count = 0;
    // SAFETY: the pointers of all calls are to locals; the driver is started.
    unsafe {
        check("count the GPUs", sys::cuDeviceGetCount(&raw mut count))?;
        for ordinal in 0..count {
            let (mut device, mut found) = (0, MaybeUninit::<sys::CUuuid>::zeroed());
            check("name a GPU", sys::cuDeviceGet(&raw mut device, ordinal))?;
            let named = sys::cuDeviceGetUuid_v2(found.as_mut_ptr(), device);
            check("name a GPU", named)?;
            if found.assume_init().bytes.map(|byte| byte as u8) == uuid {
                return Ok(Some(device));
            }
        }
    }
    Ok(None)
}

fn check(during: &str, code: CUresult) -> Result<()> {
    match code {
        CUresult::CUDA_SUCCESS => Ok(()),
        other => Err(RankError::start("CUDA", format!("{during}: {other:?}"))),
    }
}

impl Gpu {
    /// Opens the driver and finds the GPU of this UUID.
    ///
    /// # Errors
    /// [`RankError::Start`]: the driver is not installed, or does not know the GPU.
    pub fn open(uuid: Uuid) -> Result<Self> {
        // SAFETY: opening the driver's library has no conditions.
        if !unsafe { sys::is_culib_present() } {
            return Err(RankError::start("CUDA", "its driver is not installed"));
        }
        // SAFETY: it has no conditions.
        check("start", unsafe { sys::cuInit(0) })?;
        let device = device_of(uuid)?.ok_or_else(|| {
            RankError::start("CUDA", "does not know the GPU of the Vulkan device")
        })?;
        let (mut context, mut streams) = (ptr::null_mut(), [ptr::null_mut(); 2]);
        // SAFETY: the driver is started, the device one of its; the pointers are to locals.
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
            device,
            uuid,
            context,
            stream,
            clock,
        })
    }

    /// What names it.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Fails unless this GPU can read memory that another rank has allocated on the GPU of this UUID, without the host.
    pub(crate) fn check_reach(&self, other: Uuid) -> Result<()> {
        use sys::CUdevice_attribute as Attribute;
        let no = |reason| Err(RankError::start("CUDA", reason));
        for attribute in [
            Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
            Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
        ] {
            let mut has = 0;
            // SAFETY: the pointer is to a local.
            let code = unsafe { sys::cuDeviceGetAttribute(&raw mut has, attribute, self.device) };
            check("ask for shared memory", code)?;
            if has == 0 {
                return no("the GPU has no memory that processes share");
            }
        }
        if other == self.uuid {
            return Ok(());
        }
        let Some(device) = device_of(other)? else {
            return no("does not see the GPU of another rank");
        };
        let mut can = 0;
        // SAFETY: the pointer is to a local.
        let code = unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, self.device, device) };
        check("ask for another GPU", code)?;
        match can {
            0 => no("the GPU cannot read that of another rank"),
            _ => Ok(()),
        }
    }

    /// Makes the GPU the one that this thread's calls are about.
    pub(crate) fn make_current(&self) -> Result<()> {
        // SAFETY: the context is retained.
        check("use the GPU", unsafe { sys::cuCtxSetCurrent(self.context) })
    }

    /// The stream of copies, as NCCL takes it.
    pub(crate) fn stream(&self) -> *mut std::ffi::c_void {
        self.stream.cast()
    }

    /// Imports device memory of this many bytes that Vulkan has exported, which has an allocation of its own.
    ///
    /// # Errors
    /// What CUDA reports.
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

    /// Allocates device memory of at least this many bytes, and exports it: for Vulkan, and for other processes
    /// ([`Gpu::import_allocated`]). [`CudaMemory::bytes`] says how many it has.
    ///
    /// # Errors
    /// What CUDA reports.
    pub(crate) fn allocate(&self, bytes: u64) -> Result<(CudaMemory, File)> {
        self.make_current()?;
        let mut properties = MaybeUninit::<CUmemAllocationProp>::zeroed();
        let (mut handle, mut granule, mut descriptor) = (0, 0, -1);
        // SAFETY: zeros are valid for all fields but those written here; the pointers are to locals.
        unsafe {
            let at = properties.as_mut_ptr();
            (&raw mut (*at).type_).write(sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED);
            (&raw mut (*at).requestedHandleTypes).write(POSIX);
            (&raw mut (*at).location.type_).write(CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE);
            (&raw mut (*at).location.id).write(self.device);
            let minimum = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
            let asked = sys::cuMemGetAllocationGranularity(&raw mut granule, at, minimum);
            check("allocate memory", asked)?;
            let bytes = (bytes as usize).next_multiple_of(granule.max(1));
            let made = sys::cuMemCreate(&raw mut handle, bytes, at, 0);
            check("allocate memory", made)?;
            let to = (&raw mut descriptor).cast();
            check(
                "export memory",
                sys::cuMemExportToShareableHandle(to, handle, POSIX, 0),
            )?;
            let file = File::from(OwnedFd::from_raw_fd(descriptor));
            Ok((self.map(handle, bytes)?, file))
        }
    }

    /// Imports device memory that [`Gpu::allocate`] has exported in another process, on a GPU in reach.
    ///
    /// # Errors
    /// What CUDA reports.
    pub(crate) fn import_allocated(&self, file: &File, bytes: u64) -> Result<CudaMemory> {
        self.make_current()?;
        let mut handle = 0;
        let descriptor = ptr::without_provenance_mut(file.as_raw_fd() as usize);
        // SAFETY: the pointers are to locals; the driver takes the descriptor by value and retains none.
        unsafe {
            let imported = sys::cuMemImportFromShareableHandle(&raw mut handle, descriptor, POSIX);
            check("import another GPU's memory", imported)?;
            self.map(handle, bytes as usize)
        }
    }

    /// Gives an allocation an address that this GPU reads and writes.
    ///
    /// # Safety
    /// The handle is of an allocation of this many bytes; it is released.
    unsafe fn map(&self, handle: CUmemGenericAllocationHandle, bytes: usize) -> Result<CudaMemory> {
        let mut address = 0;
        let mut access = MaybeUninit::<CUmemAccessDesc>::zeroed();
        // SAFETY: zeros are valid for all fields but those written here; the pointers are to locals.
        unsafe {
            let at = access.as_mut_ptr();
            (&raw mut (*at).location.type_).write(CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE);
            (&raw mut (*at).location.id).write(self.device);
            (&raw mut (*at).flags).write(CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
            let reserved = sys::cuMemAddressReserve(&raw mut address, bytes, 0, 0, 0);
            check("map memory", reserved)?;
            check("map memory", sys::cuMemMap(address, bytes, 0, handle, 0))?;
            check("map memory", sys::cuMemSetAccess(address, bytes, at, 1))?;
            check("map memory", sys::cuMemRelease(handle))?;
        }
        Ok(CudaMemory { address, bytes })
    }

    /// Copies bytes from one address to another, and waits until it is done.
    ///
    /// # Safety
    /// Both ranges are of memory that this GPU reaches and that nothing writes meanwhile.
    pub(crate) unsafe fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        self.make_current()?;
        // SAFETY: as the caller says.
        let copied = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, self.stream) };
        check("copy from another GPU", copied)?;
        // SAFETY: the stream is this GPU's.
        check("copy from another GPU", unsafe {
            sys::cuStreamSynchronize(self.stream)
        })
    }

    /// Imports a timeline semaphore.
    ///
    /// # Errors
    /// What CUDA reports.
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

    /// Lets the timeline have `value` when the copies so far are done.
    ///
    /// # Errors
    /// What CUDA reports.
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

    /// Notes when the copies so far are done.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn moment(&self) -> Result<Moment> {
        self.make_current()?;
        Self::moment_on(self.stream)
    }

    /// Notes this moment, whatever copies are under way.
    ///
    /// # Errors
    /// What CUDA reports.
    pub fn now(&self) -> Result<Moment> {
        self.make_current()?;
        Self::moment_on(self.clock)
    }

    fn moment_on(stream: CUstream) -> Result<Moment> {
        let mut event = ptr::null_mut();
        // SAFETY: the pointer is to a local, the stream one of the current GPU.
        unsafe {
            check("note a moment", sys::cuEventCreate(&raw mut event, 0))?;
            let moment = Moment(event);
            check("note a moment", sys::cuEventRecord(moment.0, stream))?;
            Ok(moment)
        }
    }
}
