//! Connections between all pairs of the ranks of one host, which carry short messages and descriptors of memory.

use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::group::Refusal;
use crate::secret::private;
use crate::{Group, RankError, Result};

/// How long all may take to connect, once all are known to listen.
const START: Duration = Duration::from_secs(20);
/// Between two looks whether a rank is lost.
const LOOK: Duration = Duration::from_secs(1);
/// How long to wait for the name of the rank that was lost first.
const BLAME: Duration = Duration::from_secs(2);
const SHORT: Duration = Duration::from_millis(2);

/// The connections of one rank.
pub struct Lines {
    group: Group,
    /// By rank; none to itself.
    streams: Vec<Option<UnixStream>>,
}

/// Where a rank listens: a folder that its user alone can open.
struct Place {
    folder: PathBuf,
    listener: UnixListener,
}

impl Place {
    fn new() -> io::Result<Self> {
        let name = format!(
            "hlx-lines-{}-{}",
            std::process::id(),
            private::random_word()?
        );
        let folder = std::env::temp_dir().join(name);
        private::create(&folder)?;
        let listening = UnixListener::bind(Self::socket(&folder))
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        let listener = listening.inspect_err(|_| _ = fs::remove_dir_all(&folder))?;
        Ok(Self { folder, listener })
    }

    fn socket(folder: &Path) -> PathBuf {
        folder.join("line")
    }

    fn accept(&self, until: Instant) -> io::Result<UnixStream> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => return Ok(stream),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                Err(_) if Instant::now() > until => return Err(io::ErrorKind::TimedOut.into()),
                Err(_) => std::thread::sleep(SHORT),
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Lines {
    /// Connects all ranks of a group with each other, if all are willing and on one host; all of them call it.
    ///
    /// # Errors
    /// A rank that is lost. Inside: the first rank that is not willing or cannot be reached, and why.
    pub fn meet(group: &Group, willing: Result<(), String>) -> Result<Result<Self, Refusal>> {
        let place = willing.and_then(|()| Place::new().map_err(|error| error.to_string()));
        let folder = match &place {
            Ok(place) => Ok(place.folder.as_os_str().as_encoded_bytes()),
            Err(reason) => Err(reason.clone()),
        };
        let folders = match group.agree(folder)? {
            Ok(folders) => folders,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let connected = place.and_then(|place| {
            let streams = connect(group.rank(), &place, &folders);
            streams.map_err(|error| format!("cannot connect on this host: {error}"))
        });
        let answer = connected.as_ref().map(|_| &[][..]).map_err(String::clone);
        if let Err(refusal) = group.agree(answer)? {
            return Ok(Err(refusal));
        }
        let group = group.clone();
        // All have agreed, so that this rank has not failed.
        let streams = connected.unwrap_or_default();
        Ok(Ok(Self { group, streams }))
    }

    /// Sends bytes to a rank, with a descriptor beside the first of them.
    ///
    /// # Errors
    /// A rank that is lost.
    pub fn send(&self, to: usize, bytes: &[u8], file: Option<&File>) -> Result<()> {
        let descriptors: Vec<_> = file.iter().map(|file| file.as_fd()).collect();
        let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut room);
        if !descriptors.is_empty() {
            beside.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let mut stream = self.stream(to)?;
        let first = IoSlice::new(bytes);
        let sent = rustix::io::retry_on_intr(|| {
            sendmsg(stream, &[first], &mut beside, SendFlags::NOSIGNAL)
        });
        sent.map_err(io::Error::from)
            .and_then(|sent| stream.write_all(&bytes[sent..]))
            .map_err(|error| self.lost(to, &error))
    }

    /// Receives bytes of a rank, and the descriptor that came with them.
    ///
    /// # Errors
    /// A rank that is lost.
    pub fn receive(&self, from: usize, into: &mut [u8]) -> Result<Option<File>> {
        let stream = self.stream(from)?;
        let (mut file, mut n) = (None, 0);
        while n < into.len() {
            let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
            let mut beside = RecvAncillaryBuffer::new(&mut room);
            let rest = &mut [IoSliceMut::new(&mut into[n..])];
            match recvmsg(stream, rest, &mut beside, RecvFlags::CMSG_CLOEXEC) {
                Ok(received) if received.bytes > 0 => n += received.bytes,
                Ok(_) => {
                    let ended = io::Error::other("its process has ended");
                    return Err(self.lost(from, &ended));
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    if let Some(lost) = self.group.lost() {
                        return Err(lost);
                    }
                }
                Err(error) => return Err(self.lost(from, &error.into())),
            }
            for message in beside.drain() {
                if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
                    file = descriptors.next().map(File::from).or(file);
                }
            }
        }
        Ok(file)
    }

    fn stream(&self, rank: usize) -> Result<&UnixStream> {
        let stream = self.streams.get(rank).and_then(Option::as_ref);
        stream.ok_or_else(|| self.lost_for(rank, "has no connection"))
    }

    /// The rank that was lost first, or else this one.
    fn lost(&self, rank: usize, error: &io::Error) -> RankError {
        let until = Instant::now() + BLAME;
        while Instant::now() < until {
            if let Some(lost) = self.group.lost() {
                return lost;
            }
            std::thread::sleep(SHORT);
        }
        self.lost_for(rank, &error.to_string())
    }

    fn lost_for(&self, rank: usize, reason: &str) -> RankError {
        RankError::Lost {
            rank,
            host: self.group.host(rank),
            reason: reason.to_owned(),
        }
    }
}

/// Connects to the ranks before this one, and waits for those after it.
fn connect(rank: usize, place: &Place, folders: &[Vec<u8>]) -> io::Result<Vec<Option<UnixStream>>> {
    let until = Instant::now() + START;
    let mut streams: Vec<Option<UnixStream>> = Vec::new();
    streams.resize_with(folders.len(), || None);
    for (other, folder) in folders.iter().enumerate().take(rank) {
        let folder = String::from_utf8_lossy(folder);
        private::check(Path::new(&*folder))?;
        let mut stream = UnixStream::connect(Place::socket(Path::new(&*folder)))?;
        stream.write_all(&(rank as u64).to_le_bytes())?;
        streams[other] = Some(stream);
    }
    while streams[rank + 1..].iter().any(Option::is_none) {
        let mut stream = place.accept(until)?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(START))?;
        let mut number = [0; 8];
        // No other user can open the folder; a process of this one that is not a rank is left alone.
        if stream.read_exact(&mut number).is_err() {
            continue;
        }
        let number = usize::try_from(u64::from_le_bytes(number)).unwrap_or(usize::MAX);
        match streams.get_mut(number) {
            Some(free @ None) if number > rank => *free = Some(stream),
            _ => continue,
        }
    }
    for stream in streams.iter().flatten() {
        stream.set_read_timeout(Some(LOOK))?;
    }
    Ok(streams)
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use super::*;
    use crate::shared::tests::ranks;

    #[test]
    fn every_rank_sends_each_other_bytes_and_a_file() {
        let path = std::env::temp_dir().join(format!("hlx-lines-test-{}", std::process::id()));
        ranks(4, |_, group| {
            let lines = Lines::meet(&group, Ok(())).expect("meets").expect("agrees");
            let mine = group.rank();
            let others: Vec<usize> = (0..4).filter(|rank| *rank != mine).collect();
            for &to in &others {
                let path = path.with_extension(format!("{mine}-{to}"));
                fs::write(&path, format!("from {mine} to {to}")).expect("writes");
                let file = File::open(&path).expect("opens");
                fs::remove_file(&path).expect("removes");
                let text = format!("{mine} {to}");
                lines.send(to, text.as_bytes(), Some(&file)).expect("sends");
                lines.send(to, b"more", None).expect("sends");
            }
            for &from in &others {
                let (mut text, mut more) = ([0; 3], [0; 4]);
                let file = lines.receive(from, &mut text).expect("receives");
                assert_eq!(text, format!("{from} {mine}").as_bytes());
                let mut file = file.expect("came with a file");
                let mut found = String::new();
                file.rewind().expect("rewinds");
                file.read_to_string(&mut found).expect("reads");
                assert_eq!(found, format!("from {from} to {mine}"));
                assert!(lines.receive(from, &mut more).expect("receives").is_none());
                assert_eq!(&more, b"more");
            }
            group.leave().expect("leaves");
        });
    }

    #[test]
    fn all_hear_who_is_not_willing() {
        let refusals = ranks(2, |_, group| {
            let willing = match group.rank() {
                1 => Err("does not want to".to_owned()),
                _ => Ok(()),
            };
            let refusal = Lines::meet(&group, willing).expect("meets").err();
            group.leave().expect("leaves");
            refusal.expect("is refused")
        });
        let line = "does not want to".to_owned();
        let expected = Refusal { rank: 1, line };
        assert_eq!(refusals, [expected.clone(), expected]);
    }

    #[test]
    fn a_rank_that_is_gone_is_named() {
        let errors = ranks(2, |_, group| {
            let lines = Lines::meet(&group, Ok(())).expect("meets").expect("agrees");
            if group.rank() == 1 {
                drop(lines);
                group.fail("has no more memory");
                return None;
            }
            lines.receive(1, &mut [0; 8]).err()
        });
        let error = errors[0].as_ref().expect("fails").to_string();
        assert!(error.starts_with("rank 1 on "), "{error}");
        assert!(error.ends_with("has no more memory"), "{error}");
    }
}
