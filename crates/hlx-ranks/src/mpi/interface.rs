//! The shim over the two binary interfaces of MPI libraries: the few functions that are used, with the
//! type of handles as parameter.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::{RankError, Result};

/// Of `MPI_Init_thread`: calls come from one thread at a time. The number is the same everywhere.
const SERIALIZED: c_int = 2;
/// Room for the version's text; MPICH writes up to 8,192 bytes.
const VERSION_BYTES: usize = 1 << 14;
/// The tag of all messages.
const TAG: c_int = 7;

/// A message under way. Its memory is borrowed until it is done.
pub(super) struct Pending<'a> {
    request: usize,
    memory: PhantomData<&'a mut [u8]>,
}

/// An MPI library, whatever its handles are.
pub(super) trait Interface: Send + Sync {
    /// The library's version, its first line.
    fn name(&self) -> String;
    /// Initialises the library; returns this process's rank and the number of ranks.
    fn init(&self) -> Result<(usize, usize)>;
    fn send<'a>(&self, peer: usize, bytes: &'a [u8]) -> Result<Pending<'a>, c_int>;
    fn receive<'a>(&self, peer: usize, bytes: &'a mut [u8]) -> Result<Pending<'a>, c_int>;
    /// Returns the message if it is not done.
    fn test<'a>(&self, message: Pending<'a>) -> Result<Option<Pending<'a>>, c_int>;
    fn abort(&self);
    fn finalize(&self);
}

/// The functions, by the type of a handle.
struct Functions<H> {
    init: unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int) -> c_int,
    comm_rank: unsafe extern "C" fn(H, *mut c_int) -> c_int,
    comm_size: unsafe extern "C" fn(H, *mut c_int) -> c_int,
    set_errhandler: unsafe extern "C" fn(H, H) -> c_int,
    isend: unsafe extern "C" fn(*const c_void, c_int, H, c_int, c_int, H, *mut H) -> c_int,
    irecv: unsafe extern "C" fn(*mut c_void, c_int, H, c_int, c_int, H, *mut H) -> c_int,
    test: unsafe extern "C" fn(*mut H, *mut c_int, *mut c_void) -> c_int,
    abort: unsafe extern "C" fn(H, c_int) -> c_int,
    finalize: unsafe extern "C" fn() -> c_int,
}

/// The constants of an interface.
#[derive(Clone, Copy)]
struct Constants<H> {
    world: H,
    byte: H,
    errors_return: H,
    status_ignore: usize,
}

struct Loaded<H> {
    name: String,
    functions: Functions<H>,
    constants: Constants<H>,
    /// Never closed: MPI libraries leave threads and exit handlers behind.
    _library: Library,
}

/// A handle as a pointer or an int, held as a word.
trait Handle: Copy + Send + Sync + 'static {
    fn to_word(self) -> usize;
    fn from_word(word: usize) -> Self;
}

/// Open MPI's: a pointer that is never followed here.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Pointer(*mut c_void);

// SAFETY: the pointer is a name that is given back to the library; nothing is read through it.
unsafe impl Send for Pointer {}
// SAFETY: as above.
unsafe impl Sync for Pointer {}

impl Handle for Pointer {
    fn to_word(self) -> usize {
        self.0.expose_provenance()
    }

    fn from_word(word: usize) -> Self {
        Self(ptr::with_exposed_provenance_mut(word))
    }
}

impl Handle for c_int {
    fn to_word(self) -> usize {
        self as u32 as usize
    }

    fn from_word(word: usize) -> Self {
        word as u32 as c_int
    }
}

/// Opens the first library that is there.
///
/// # Errors
/// [`RankError::Start`]: none is there, or it is of an unknown interface.
pub(super) fn open(names: &[String]) -> Result<Box<dyn Interface>> {
    let mut reasons = Vec::new();
    for name in names {
        // SAFETY: opening a library runs its initialisers; an MPI library's have no conditions. Its
        // plugins look for its symbols among the global ones.
        match unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) } {
            Ok(library) => return recognise(name, library),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    let reason = format!(
        "none of {} can be opened: {}",
        names.join(", "),
        reasons.join("; ")
    );
    Err(RankError::start("MPI", reason))
}

fn recognise(name: &str, library: Library) -> Result<Box<dyn Interface>> {
    let version = version(name, &library)?;
    let line = version.lines().next().unwrap_or_default().trim().to_owned();
    let of_mpich = ["MPICH", "Intel(R) MPI", "MVAPICH"];
    if version.contains("Open MPI") {
        let data = |symbol: &str| -> Result<Pointer> {
            // SAFETY: the symbol is an object of the library; its address is all that is used.
            let found = unsafe { library.get::<*mut c_void>(symbol.as_bytes()) };
            let found = found.map_err(|error| RankError::start(name, error))?;
            Ok(Pointer(*found))
        };
        let constants = Constants {
            world: data("ompi_mpi_comm_world")?,
            byte: data("ompi_mpi_byte")?,
            errors_return: data("ompi_mpi_errors_return")?,
            status_ignore: 0,
        };
        Ok(Box::new(Loaded::new(name, line, library, constants)?))
    } else if of_mpich.iter().any(|known| version.contains(known)) {
        // The numbers of the MPICH ABI, which its derivatives have promised to keep.
        let constants: Constants<c_int> = Constants {
            world: 0x4400_0000,
            byte: 0x4c00_010d,
            errors_return: 0x5400_0001,
            status_ignore: 1,
        };
        Ok(Box::new(Loaded::new(name, line, library, constants)?))
    } else {
        let reason = format!(
            "is an MPI library of an unknown interface: `{line}`, expected Open MPI or one of MPICH's"
        );
        Err(RankError::start(name, reason))
    }
}

/// What the library says that it is.
fn version(name: &str, library: &Library) -> Result<String> {
    type Version = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
    // SAFETY: MPI-3 defines the function with these arguments.
    let function = unsafe { library.get::<Version>(b"MPI_Get_library_version") };
    let function = function.map_err(|error| RankError::start(name, error))?;
    let mut text = vec![0_u8; VERSION_BYTES];
    let mut length = 0;
    // SAFETY: it may be called before MPI_Init and writes at most 8,192 bytes.
    unsafe { function(text.as_mut_ptr().cast(), &raw mut length) };
    let text = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy);
    Ok(text.map(|text| text.into_owned()).unwrap_or_default())
}

impl<H: Handle> Loaded<H> {
    fn new(path: &str, name: String, library: Library, constants: Constants<H>) -> Result<Self> {
        macro_rules! function {
            ($symbol:literal) => {{
                // SAFETY: the library's version says which interface it has; the types are that
                // interface's, by MPI's C binding.
                let found = unsafe { library.get($symbol) };
                *found.map_err(|error| RankError::start(path, error))?
            }};
        }
        let functions = Functions {
            init: function!(b"MPI_Init_thread"),
            comm_rank: function!(b"MPI_Comm_rank"),
            comm_size: function!(b"MPI_Comm_size"),
            set_errhandler: function!(b"MPI_Comm_set_errhandler"),
            isend: function!(b"MPI_Isend"),
            irecv: function!(b"MPI_Irecv"),
            test: function!(b"MPI_Test"),
            abort: function!(b"MPI_Abort"),
            finalize: function!(b"MPI_Finalize"),
        };
        Ok(Self {
            name,
            functions,
            constants,
            _library: library,
        })
    }

    fn checked(code: c_int) -> Result<(), c_int> {
        if code == 0 { Ok(()) } else { Err(code) }
    }
}

impl<H: Handle> Interface for Loaded<H> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn init(&self) -> Result<(usize, usize)> {
        let failed = |code| RankError::start(&self.name, format!("error {code} at its start"));
        let Constants {
            world,
            errors_return,
            ..
        } = self.constants;
        let (mut rank, mut n_ranks, mut provided) = (0, 0, 0);
        let functions = &self.functions;
        // SAFETY: MPI allows null for the program's arguments; the other pointers are to locals. It is
        // called once a process, before any other call.
        unsafe {
            let null = (ptr::null_mut(), ptr::null_mut());
            Self::checked((functions.init)(
                null.0,
                null.1,
                SERIALIZED,
                &raw mut provided,
            ))
            .map_err(failed)?;
            Self::checked((functions.set_errhandler)(world, errors_return)).map_err(failed)?;
            Self::checked((functions.comm_rank)(world, &raw mut rank)).map_err(failed)?;
            Self::checked((functions.comm_size)(world, &raw mut n_ranks)).map_err(failed)?;
        }
        Ok((rank as usize, n_ranks as usize))
    }

    fn send<'a>(&self, peer: usize, bytes: &'a [u8]) -> Result<Pending<'a>, c_int> {
        let Constants { world, byte, .. } = self.constants;
        let mut request = H::from_word(0);
        let (data, n) = (bytes.as_ptr().cast(), bytes.len() as c_int);
        // SAFETY: the bytes are borrowed until the message is done.
        let code = unsafe {
            (self.functions.isend)(data, n, byte, peer as c_int, TAG, world, &raw mut request)
        };
        Self::checked(code).map(|()| Pending {
            request: request.to_word(),
            memory: PhantomData,
        })
    }

    fn receive<'a>(&self, peer: usize, bytes: &'a mut [u8]) -> Result<Pending<'a>, c_int> {
        let Constants { world, byte, .. } = self.constants;
        let mut request = H::from_word(0);
        let (data, n) = (bytes.as_mut_ptr().cast(), bytes.len() as c_int);
        // SAFETY: the bytes are borrowed for writing until the message is done.
        let code = unsafe {
            (self.functions.irecv)(data, n, byte, peer as c_int, TAG, world, &raw mut request)
        };
        Self::checked(code).map(|()| Pending {
            request: request.to_word(),
            memory: PhantomData,
        })
    }

    fn test<'a>(&self, message: Pending<'a>) -> Result<Option<Pending<'a>>, c_int> {
        let mut request = H::from_word(message.request);
        let mut done = 0;
        let ignored = ptr::without_provenance_mut(self.constants.status_ignore);
        // SAFETY: the request is one of this library's that is not done; the status is the constant that
        // says that none is written.
        let code = unsafe { (self.functions.test)(&raw mut request, &raw mut done, ignored) };
        Self::checked(code)?;
        let pending = Pending {
            request: request.to_word(),
            memory: PhantomData,
        };
        Ok((done == 0).then_some(pending))
    }

    fn abort(&self) {
        // SAFETY: the library is initialised; the call ends the program.
        unsafe { (self.functions.abort)(self.constants.world, 1) };
    }

    fn finalize(&self) {
        // SAFETY: called once, and no message is under way.
        unsafe { (self.functions.finalize)() };
    }
}
