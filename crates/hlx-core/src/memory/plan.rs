//! The memory of a recorded graph: buffers have no place while the graph is being recorded, and
//! get one when the order of the launches is known.
//!
//! So a launch never waits for another only because they were given the same memory, and a
//! buffer's words are free for others after the last launch that touches it, however long the
//! program holds its handle.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{
    Allocation, Block, BlockMemory, BlockSource, Buffer, MemoryStatistics, Placement, TensorPool,
};
use crate::error::CoreError;

/// A graph's memory is cut into blocks of at most this many words, unless one buffer is larger:
/// 1 GiB, the allocation that every Vulkan device makes.
const LARGEST_BLOCK_WORDS: usize = 1 << 28;

/// The first and last level of the launches that touch a buffer, by the id of its block.
pub(crate) type Lifetimes = HashMap<u64, (usize, usize)>;

/// Buffers that take the words of another one when its life ends, by the ids of the blocks.
pub(crate) type Heirs = HashMap<u64, u64>;

/// The buffers of a graph being recorded.
pub(crate) struct MemoryPlan {
    source: Arc<BlockSource>,
    buffers: Mutex<Vec<(Arc<Block>, Weak<Allocation>)>>,
}

/// The memory that a graph holds, and its statistics.
pub(crate) struct PlannedMemory {
    /// Buffers whose handles outlived the recording; their words are theirs alone, and stay
    /// theirs when the handles or the graph are dropped first.
    _held: Vec<Buffer>,
    pub statistics: MemoryStatistics,
}

/// Buffers that need one place: one, and those that take its words after it.
struct Request {
    blocks: Vec<Arc<Block>>,
    words: usize,
    first: usize,
    last: usize,
}

/// A buffer with its place.
struct Placed {
    start: usize,
    end: usize,
    first: usize,
    last: usize,
}

impl MemoryPlan {
    pub fn new(source: Arc<BlockSource>) -> Arc<Self> {
        let buffers = Mutex::default();
        Arc::new(Self { source, buffers })
    }

    fn buffers(&self) -> std::sync::MutexGuard<'_, Vec<(Arc<Block>, Weak<Allocation>)>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a buffer of `len` words that has no place yet, or refuses a size that no memory has.
    pub fn allocate(&self, len: usize) -> Result<Buffer, CoreError> {
        let words = self.source.aligned(len)?;
        let block = self.source.planned(words);
        let allocation = Allocation::new(None, Arc::clone(&block), 0, words);
        let buffer = Buffer::whole(allocation, len);
        self.buffers()
            .push((block, Arc::downgrade(buffer.allocation())));
        Ok(buffer)
    }

    /// The blocks of buffers whose handles are gone: once the graph has run, nobody reads them.
    pub fn dropped(&self) -> HashSet<u64> {
        let buffers = self.buffers();
        let dropped = buffers
            .iter()
            .filter(|(_, handle)| handle.strong_count() == 0);
        dropped.map(|(block, _)| block.id).collect()
    }

    /// What [`MemoryPlan::place`] would hold, with nothing allocated: `held_bytes` of what would be the graph's own
    /// or shared, `in_use_bytes` of its own alone.
    pub fn measure(&self, lifetimes: &Lifetimes, heirs: &Heirs) -> MemoryStatistics {
        let (statistics, _, requests) = self.requests(lifetimes, heirs);
        with_shared(statistics, &requests, &pack(&requests).1)
    }

    /// The statistics of the buffers whose handles are still held, these buffers' blocks, and what the others need.
    fn requests(
        &self,
        lifetimes: &Lifetimes,
        heirs: &Heirs,
    ) -> (MemoryStatistics, Vec<Arc<Block>>, Vec<Request>) {
        let (mut held, mut requests) = (Vec::new(), Requests::default());
        let mut statistics = MemoryStatistics::default();
        for (block, allocation) in self.buffers().drain(..) {
            if allocation.upgrade().is_some() {
                statistics.held_bytes += block.words as u64 * 4;
                statistics.buffers += 1;
                held.push(block);
            } else if let Some(&(first, last)) = lifetimes.get(&block.id) {
                requests.add(block, (first, last), heirs);
            }
        }
        statistics.in_use_bytes = statistics.held_bytes;
        (statistics, held, requests.all)
    }

    /// Gives every buffer its place: those whose handles are still held lie in `pool`, the
    /// others in memory that all graphs share, where two overlap only if their lifetimes do not, or if
    /// one is the other's heir. Neither an heir nor what it inherits has a handle.
    pub fn place(
        &self,
        lifetimes: &Lifetimes,
        heirs: &Heirs,
        pool: &Arc<TensorPool>,
    ) -> Result<PlannedMemory, CoreError> {
        let (statistics, own, requests) = self.requests(lifetimes, heirs);
        let mut held = Vec::with_capacity(own.len());
        for block in own {
            let buffer = pool.allocate(block.words)?;
            put(&block, Placement::Own(buffer.clone()));
            held.push(buffer);
        }
        let (places, sizes) = pack(&requests);
        let blocks = self.source.scratch(&sizes)?;
        for (request, (block_idx, start)) in requests.iter().zip(places) {
            for planned in &request.blocks {
                let block = Arc::clone(&blocks[block_idx]);
                put(planned, Placement::Shared(block, start));
            }
        }
        Ok(PlannedMemory {
            _held: held,
            statistics: with_shared(statistics, &requests, &sizes),
        })
    }
}

/// The statistics with the memory that a graph shares with others, in blocks of these words.
fn with_shared(
    mut statistics: MemoryStatistics,
    requests: &[Request],
    sizes: &[usize],
) -> MemoryStatistics {
    statistics.peak_bytes = statistics.held_bytes + most_alive_bytes(requests);
    statistics.held_bytes += sizes.iter().sum::<usize>() as u64 * 4;
    statistics
}

/// Requests being collected.
#[derive(Default)]
struct Requests {
    all: Vec<Request>,
    /// The places in `all` by the block whose words are inherited.
    places: HashMap<u64, usize>,
}

impl Requests {
    fn add(&mut self, block: Arc<Block>, lifetime: (usize, usize), heirs: &Heirs) {
        let (first, last) = lifetime;
        let mut origin = block.id;
        while let Some(&earlier) = heirs.get(&origin) {
            origin = earlier;
        }
        let place = *self.places.entry(origin).or_insert(self.all.len());
        match self.all.get_mut(place) {
            Some(request) => {
                request.words = request.words.max(block.words);
                request.first = request.first.min(first);
                request.last = request.last.max(last);
                request.blocks.push(block);
            }
            None => self.all.push(Request {
                words: block.words,
                blocks: vec![block],
                first,
                last,
            }),
        }
    }
}

fn put(planned: &Block, placement: Placement) {
    if let BlockMemory::Planned(place) = &planned.memory {
        // A buffer is placed once, by the plan that made it.
        let _ = place.set(placement);
    }
}

/// The bytes of the buffers alive at the worst level.
fn most_alive_bytes(requests: &[Request]) -> u64 {
    // Nothing bounds the sizes of a graph that has no place yet, all together.
    let mut changes: Vec<(usize, i128)> = Vec::with_capacity(2 * requests.len());
    for request in requests {
        let bytes = request.words as i128 * 4;
        changes.push((request.first, bytes));
        changes.push((request.last + 1, -bytes));
    }
    changes.sort_unstable();
    let (mut alive, mut most) = (0, 0);
    for (_, change) in changes {
        alive += change;
        most = most.max(alive);
    }
    u64::try_from(most).unwrap_or(u64::MAX)
}

/// Finds a block and a start for every request, and the sizes of the blocks: the largest first,
/// each at the lowest words that nothing alive at the same time has.
fn pack(requests: &[Request]) -> (Vec<(usize, usize)>, Vec<usize>) {
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|&idx| (usize::MAX - requests[idx].words, requests[idx].first));
    let mut places = vec![(0, 0); requests.len()];
    // The buffers of each block, by their start.
    let mut blocks: Vec<Vec<Placed>> = Vec::new();
    for idx in order {
        let &Request {
            words, first, last, ..
        } = &requests[idx];
        let found = blocks.iter().enumerate().find_map(|(block_idx, placed)| {
            let start = lowest_gap(placed, words, first, last);
            // A block of one large buffer takes others in its place.
            let fits = start + words <= LARGEST_BLOCK_WORDS.max(words_of(placed));
            fits.then_some((block_idx, start))
        });
        let (block_idx, start) = found.unwrap_or_else(|| {
            blocks.push(Vec::new());
            (blocks.len() - 1, 0)
        });
        let placed = &mut blocks[block_idx];
        let at = placed.partition_point(|other| other.start < start);
        let end = start + words;
        placed.insert(
            at,
            Placed {
                start,
                end,
                first,
                last,
            },
        );
        places[idx] = (block_idx, start);
    }
    let sizes = blocks.iter().map(|placed| words_of(placed)).collect();
    (places, sizes)
}

/// The words of a block that holds these buffers.
fn words_of(placed: &[Placed]) -> usize {
    placed.iter().map(|one| one.end).max().unwrap_or(0)
}

/// The lowest start of `words` words that no buffer alive within the levels has.
fn lowest_gap(placed: &[Placed], words: usize, first: usize, last: usize) -> usize {
    let mut start = 0;
    for other in placed {
        let apart = other.last < first || last < other.first;
        if apart || other.end <= start {
            continue;
        }
        if other.start >= start + words {
            break;
        }
        start = other.end;
    }
    start
}

#[cfg(test)]
mod tests {
    use super::super::HostAllocator;
    use super::*;

    fn requests(lives: &[(usize, usize, usize)]) -> Vec<Request> {
        let source = Arc::new(BlockSource::new("test", "cpu", Arc::new(HostAllocator)));
        let request = |&(words, first, last): &(usize, usize, usize)| Request {
            blocks: vec![source.planned(words)],
            words,
            first,
            last,
        };
        lives.iter().map(request).collect()
    }

    #[test]
    fn buffers_share_words_only_if_their_lives_do_not_touch() {
        let mut lives = Vec::new();
        for idx in 0..200_usize {
            let first = idx * 7919 % 60;
            lives.push((64 * (1 + idx * 31 % 17), first, first + idx % 9));
        }
        let requests = requests(&lives);
        let (places, sizes) = pack(&requests);
        assert_eq!(sizes.len(), 1);
        for (i, a) in requests.iter().enumerate() {
            assert!(places[i].1 + a.words <= sizes[0]);
            for (j, b) in requests.iter().enumerate().skip(i + 1) {
                let together = a.first <= b.last && b.first <= a.last;
                let (start_a, start_b) = (places[i].1, places[j].1);
                let shared = start_a < start_b + b.words && start_b < start_a + a.words;
                assert!(!(together && shared), "{i} and {j}");
            }
        }
        // Not far from what is alive at the worst level.
        let least = most_alive_bytes(&requests) as usize / 4;
        assert!(sizes[0] <= least * 5 / 4, "{} words of {least}", sizes[0]);
    }

    #[test]
    fn a_chain_needs_two_buffers() {
        let requests = requests(&[(64, 0, 1), (64, 1, 2), (64, 2, 3), (64, 3, 4)]);
        assert_eq!(pack(&requests).1, [128]);
        assert_eq!(most_alive_bytes(&requests), 512);
    }

    #[test]
    fn blocks_stay_below_the_largest() {
        let half = LARGEST_BLOCK_WORDS / 2 + 64;
        let requests = requests(&[(half, 0, 9), (half, 0, 9), (64, 0, 9)]);
        assert_eq!(pack(&requests).1, [half + 64, half]);
    }

    #[test]
    fn large_buffers_take_the_block_of_one_whose_life_is_over() {
        let large = LARGEST_BLOCK_WORDS + 64;
        let requests = requests(&[
            (large, 0, 3),
            (large, 4, 9),
            (large, 5, 9),
            (large - 64, 2, 4),
        ]);
        assert_eq!(pack(&requests).1, [large, large]);
    }

    #[test]
    fn an_heir_takes_the_words_of_what_it_replaces() {
        let source = Arc::new(BlockSource::new("test", "cpu", Arc::new(HostAllocator)));
        let blocks = [64, 64, 128].map(|words| source.planned(words));
        let heirs = Heirs::from([(blocks[1].id, blocks[0].id)]);
        let mut requests = Requests::default();
        for (block, life) in blocks.iter().zip([(0, 2), (2, 5), (1, 3)]) {
            requests.add(Arc::clone(block), life, &heirs);
        }
        let found: Vec<_> = requests
            .all
            .iter()
            .map(|request| {
                (
                    request.blocks.len(),
                    request.words,
                    request.first,
                    request.last,
                )
            })
            .collect();
        assert_eq!(found, [(2, 64, 0, 5), (1, 128, 1, 3)]);
    }
}
