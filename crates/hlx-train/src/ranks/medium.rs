//! What carries the words of gradients and parameters between the ranks.

use anyhow::{Result, anyhow};
use hlx_core::Device;
#[cfg(target_os = "linux")]
use hlx_ranks::{Gpu, Lines, NcclLibrary, Peers, Uuid};
use hlx_ranks::{Group, Refusal};

use super::{agreed_on, refused};

/// What carries the words of gradients and parameters between ranks.
pub enum Medium {
    /// The copy engines of GPUs of one host.
    #[cfg(target_os = "linux")]
    Peers(Gpu, Lines),
    /// NCCL, from GPU to GPU.
    #[cfg(target_os = "linux")]
    Nccl(Gpu, NcclLibrary),
    /// The memory of the host, and what connects the ranks.
    Host,
}

/// The variable that chooses the medium, or what fits.
const EXCHANGE: &str = "HLX_EXCHANGE";

/// Finds the fastest medium that all ranks have: between NVIDIA GPUs their copy engines if all are on one host, else
/// NCCL if each rank has one of its own; the host's memory for others.
///
/// # Errors
/// [`Refused`](super::Refused) where a medium was chosen, or the host's memory carries no data, and a rank lacks it;
/// and for a choice that is not known.
pub fn find_medium(group: &Group, device: &Device) -> Result<Medium> {
    let choice = std::env::var(EXCHANGE).unwrap_or_default();
    let is_known = ["", "host", "nccl", "peers"].contains(&choice.as_str());
    let known = is_known
        .then_some(())
        .ok_or_else(|| anyhow!("{EXCHANGE}={choice}: expected peers, nccl, host or nothing"));
    agreed_on(group, known)?;
    let Refusal { rank, line } = match between_gpus(group, device, &choice)? {
        Ok(medium) => return Ok(medium),
        Err(refusal) => refusal,
    };
    if !group.carries_data() {
        let needs = "ranks that torchrun starts exchange from GPU to GPU; others need MPI (mpirun)";
        return Err(refused(group, rank, &format!("{line}: {needs}")));
    }
    if ["nccl", "peers"].contains(&choice.as_str()) {
        let reason = format!("{EXCHANGE}={choice}: {line}");
        return Err(refused(group, rank, &reason));
    }
    tracing::info!("through the host's memory: {}: {line}", group.name(rank));
    Ok(Medium::Host)
}

/// The medium from GPU to GPU; inside, the first rank that has none, and why.
#[cfg(target_os = "linux")]
fn between_gpus(group: &Group, device: &Device, choice: &str) -> Result<Result<Medium, Refusal>> {
    let gpu = match (choice, device.sharing_uuid()) {
        ("host", _) => Err(format!("{EXCHANGE}=host")),
        (_, None) => Err(format!("{} is no NVIDIA GPU", device.info().selector)),
        (_, Some(uuid)) => Gpu::open(uuid).map_err(|error| error.to_string()),
    };
    let uuid = gpu.as_ref().map(Gpu::uuid).map_err(String::clone);
    let uuid = uuid.as_ref().map(|uuid| &uuid[..]).map_err(String::clone);
    let uuids = match group.agree(uuid)? {
        Ok(uuids) => uuids,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let none = |rank, line: &str| {
        let line = line.to_owned();
        Ok(Err(Refusal { rank, line }))
    };
    let uuids = uuids.iter().map(|uuid| Uuid::try_from(&uuid[..]));
    let (Ok(gpu), Ok(uuids)) = (gpu, uuids.collect::<Result<Vec<Uuid>, _>>()) else {
        return none(group.rank(), "answered wrongly");
    };
    if choice != "nccl" {
        match Peers::meet(&gpu, group, &uuids)? {
            Ok(lines) => return Ok(Ok(Medium::Peers(gpu, lines))),
            Err(refusal) if choice == "peers" => return Ok(Err(refusal)),
            Err(Refusal { rank, line }) => {
                tracing::info!("no copies between GPUs: {}: {line}", group.name(rank));
            }
        }
    }
    if let Some(rank) = (0..uuids.len()).find(|&rank| uuids[..rank].contains(&uuids[rank])) {
        return none(rank, "shares its GPU");
    }
    let library = NcclLibrary::open().map_err(|error| error.to_string());
    let found = library.as_ref().map(|_| &[][..]).map_err(String::clone);
    Ok(match (group.agree(found)?, library) {
        (Ok(_), Ok(library)) => Ok(Medium::Nccl(gpu, library)),
        (Ok(_), Err(line)) => Err(Refusal { rank: 0, line }),
        (Err(refusal), _) => Err(refusal),
    })
}

/// None on this system.
#[cfg(not(target_os = "linux"))]
fn between_gpus(_: &Group, _: &Device, _: &str) -> Result<Result<Medium, Refusal>> {
    let line = "copies between GPUs are known on Linux alone".to_owned();
    Ok(Err(Refusal { rank: 0, line }))
}
