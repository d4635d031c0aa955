//! What the system says of the machine.

/// The machine's memory in bytes, where the system reports it, else no limit.
pub(crate) fn memory() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = |line: &str| {
        let rest = line.strip_prefix("MemTotal:")?;
        rest.trim()
            .trim_end_matches("kB")
            .trim()
            .parse::<u64>()
            .ok()
    };
    let found = meminfo.lines().find_map(kib);
    found.map_or(u64::MAX, |kib| kib.saturating_mul(1024))
}
