//! The launchers of MPI that ranks are tried under.

/// A launcher: what options name it by, its program, and what it needs besides the number of ranks.
pub struct Launcher {
    pub name: &'static str,
    pub program: &'static str,
    pub options: &'static [&'static str],
}

pub const LAUNCHERS: [Launcher; 2] = [
    Launcher {
        name: "openmpi",
        program: "mpirun.openmpi",
        options: &["--oversubscribe", "--allow-run-as-root"],
    },
    Launcher {
        name: "mpich",
        program: "mpirun.mpich",
        options: &[],
    },
];
