//! The few functions of NCCL that are used.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr;

use crate::{RankError, Result};

/// The variable that names the library to open.
const LIBRARY: &str = "HLX_NCCL";
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];
/// The bytes of an id.
const ID_BYTES: usize = 128;
/// `ncclUint8`.
const BYTE: c_int = 1;

#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([u8; ID_BYTES]);

type Comm = *mut c_void;
type Stream = *mut c_void;

/// An opened library.
pub(super) struct Library {
    path: String,
    version: c_int,
    functions: Functions,
    /// Never closed: NCCL leaves threads behind.
    _library: ManuallyDrop<libloading::Library>,
}

struct Functions {
    error: unsafe extern "C" fn(c_int) -> *const c_char,
    unique_id: unsafe extern "C" fn(*mut UniqueId) -> c_int,
    connect: unsafe extern "C" fn(*mut Comm, c_int, UniqueId, c_int) -> c_int,
    begin: unsafe extern "C" fn() -> c_int,
    end: unsafe extern "C" fn() -> c_int,
    send: unsafe extern "C" fn(*const c_void, usize, c_int, c_int, Comm, Stream) -> c_int,
    receive: unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, Comm, Stream) -> c_int,
}

impl Library {
    /// Opens what `HLX_NCCL` names, or the library that is installed.
    pub fn open() -> Result<Self> {
        let named = std::env::var(LIBRARY).ok().filter(|path| !path.is_empty());
        let names = match named {
            Some(path) => vec![path],
            None => NAMES.map(str::to_owned).to_vec(),
        };
        let mut reasons = Vec::new();
        for name in names {
            // SAFETY: opening a library runs its initialisers; NCCL's have no conditions.
            match unsafe { libloading::Library::new(&name) } {
                Ok(library) => return Self::of(name, library),
                Err(error) => reasons.push(error.to_string()),
            }
        }
        let reason = format!(
            "cannot be opened ({LIBRARY} names another): {}",
            reasons.join("; ")
        );
        Err(RankError::start("NCCL", reason))
    }

    fn of(path: String, library: libloading::Library) -> Result<Self> {
        macro_rules! function {
            ($symbol:literal) => {{
                // SAFETY: the types are those of NCCL 2's header.
                let found = unsafe { library.get($symbol) };
                *found.map_err(|error| RankError::start(&path, error))?
            }};
        }
        let functions = Functions {
            error: function!(b"ncclGetErrorString"),
            unique_id: function!(b"ncclGetUniqueId"),
            connect: function!(b"ncclCommInitRank"),
            begin: function!(b"ncclGroupStart"),
            end: function!(b"ncclGroupEnd"),
            send: function!(b"ncclSend"),
            receive: function!(b"ncclRecv"),
        };
        let version: unsafe extern "C" fn(*mut c_int) -> c_int = function!(b"ncclGetVersion");
        let mut found = 0;
        // SAFETY: the pointer is to a local.
        unsafe { version(&raw mut found) };
        Ok(Self {
            path,
            version: found,
            functions,
            _library: ManuallyDrop::new(library),
        })
    }

    /// The name with the version: `NCCL 2.28.3`.
    pub fn name(&self) -> String {
        let (major, minor) = match self.version {
            old if old < 10_000 => (old / 1000, old / 100 % 10),
            new => (new / 10_000, new / 100 % 100),
        };
        format!("NCCL {major}.{minor}.{}", self.version % 100)
    }

    fn check(&self, during: &str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the function returns a static text for any number.
        let text = unsafe {
            let text = (self.functions.error)(code);
            (!text.is_null()).then(|| CStr::from_ptr(text))
        };
        let text = text.map_or("no text".into(), CStr::to_string_lossy);
        let what = format!("{} ({})", self.name(), self.path);
        Err(RankError::start(what, format!("{during}: {text}")))
    }

    /// The id that all ranks connect with.
    pub fn unique_id(&self) -> Result<[u8; ID_BYTES]> {
        let mut id = UniqueId([0; ID_BYTES]);
        // SAFETY: the pointer is to a local.
        let code = unsafe { (self.functions.unique_id)(&raw mut id) };
        self.check("make an id", code).map(|()| id.0)
    }

    /// Connects this rank, on the current GPU, with all others.
    pub fn connect(self, id: &[u8], rank: usize, n_ranks: usize) -> Result<Communicator> {
        let Ok(id) = <[u8; ID_BYTES]>::try_from(id) else {
            return Err(RankError::start("NCCL", "rank 0 gave no id"));
        };
        let mut comm = ptr::null_mut();
        // SAFETY: the pointer is to a local; a context of the GPU is current.
        let code = unsafe {
            let connect = self.functions.connect;
            connect(&raw mut comm, n_ranks as c_int, UniqueId(id), rank as c_int)
        };
        self.check("connect the ranks", code)?;
        Ok(Communicator {
            library: self,
            comm,
        })
    }
}

/// The connection of this rank.
pub(super) struct Communicator {
    pub library: Library,
    comm: Comm,
}

// SAFETY: NCCL's calls may come from any thread, one at a time; the owner is used by one thread.
unsafe impl Send for Communicator {}

/// An address of the device and a number of bytes.
type Place = (u64, usize);

impl Communicator {
    /// Launches a send and a receive as one group.
    pub fn swap(
        &self,
        peer: usize,
        out: Option<Place>,
        into: Option<Place>,
        stream: Stream,
    ) -> Result<()> {
        let (functions, peer) = (&self.library.functions, peer as c_int);
        let check = |code| self.library.check("copy between GPUs", code);
        // SAFETY: the places are device memory that is imported, of the lengths given, which nobody else
        // uses until the timeline says so.
        unsafe {
            check((functions.begin)())?;
            if let Some((address, bytes)) = out.filter(|place| place.1 > 0) {
                let from = ptr::with_exposed_provenance(address as usize);
                check((functions.send)(from, bytes, BYTE, peer, self.comm, stream))?;
            }
            if let Some((address, bytes)) = into.filter(|place| place.1 > 0) {
                let to = ptr::with_exposed_provenance_mut(address as usize);
                check((functions.receive)(
                    to, bytes, BYTE, peer, self.comm, stream,
                ))?;
            }
            check((functions.end)())
        }
    }
}
