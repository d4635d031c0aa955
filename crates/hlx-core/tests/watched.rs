//! Graphs that tell when windows are final, host memory that a device copies by itself, and timelines.

mod vector_add;

use hlx_core::testing::{own_contexts, vulkan_contexts};
use hlx_core::{Buffer, Context, CoreError};
use vector_add::add;

const WORDS: usize = 64 * 5;

fn numbers(ctx: &Context, factor: f32) -> Buffer {
    let data: Vec<f32> = (0..WORDS).map(|idx| factor * idx as f32).collect();
    ctx.buffer_f32(&data).expect("numbers")
}

/// What is launched when a window is final reads its last values, and changes of it are kept; windows are
/// told in their order, one that nothing writes before the first launch.
#[test]
fn a_replay_tells_when_windows_are_final() {
    for ctx in own_contexts() {
        let (x, late, early, untouched) = (
            numbers(&ctx, 1.0),
            numbers(&ctx, 0.0),
            numbers(&ctx, 0.0),
            numbers(&ctx, 7.0),
        );
        let watched = [untouched.clone(), early.clone(), late.clone()];
        let (graph, ()) = ctx
            .record_watched(&watched, || -> Result<(), CoreError> {
                add(&ctx, &x, &x, &late)?; // 2 x, not final yet
                add(&ctx, &late, &x, &early)?; // 3 x
                add(&ctx, &early, &x, &late) // 4 x
            })
            .expect("recorded");
        for _ in 0..2 {
            let (mut told, mut seen) = (Vec::new(), Vec::new());
            graph
                .replay_watched(|window| -> Result<(), CoreError> {
                    told.push(window);
                    seen.push(ctx.download_f32(&watched[window])?);
                    // It is final: the rest of the graph does not write it again.
                    ctx.fill(&watched[window], 0)
                })
                .expect("replayed");
            assert_eq!(told, [0, 1, 2], "{ctx:?}");
            assert_eq!(seen[1][3], 9.0, "{ctx:?}");
            // The graph read `early` after it was told final and set to zeros.
            assert_eq!(seen[2][3], 3.0, "{ctx:?}");
            assert_eq!(ctx.download_f32(&late).expect("late"), vec![0.0; WORDS]);
        }
        // Without a watcher the graph is one.
        graph.replay().expect("replayed");
        assert_eq!(ctx.download_f32(&late).expect("late")[3], 12.0);
    }
}

#[test]
fn an_error_of_the_watcher_ends_the_replay() {
    for ctx in own_contexts() {
        let (x, y) = (numbers(&ctx, 1.0), numbers(&ctx, 0.0));
        let watched = [y.clone()];
        let (graph, ()) = ctx
            .record_watched(&watched, || add(&ctx, &x, &x, &y))
            .expect("recorded");
        let failed = graph.replay_watched(|_| Err(CoreError::invalid("watch", "refused")));
        assert_eq!(failed.expect_err("refused").to_string(), "watch: refused");
    }
}

#[test]
fn host_memory_is_copied_while_the_device_goes_on() {
    for ctx in own_contexts() {
        let (x, y) = (numbers(&ctx, 1.0), numbers(&ctx, 0.0));
        let mut host = ctx.alloc_host(WORDS + 3).expect("host");
        assert_eq!(host.len(), WORDS + 3);
        let there = ctx.copy_to_host(&x, host).expect("launched");
        add(&ctx, &x, &x, &y).expect("add");
        host = there.wait().expect("copied");
        assert_eq!(host.words()[5], 5.0_f32.to_bits(), "{ctx:?}");
        host.words_mut()[5] = 0.5_f32.to_bits();
        let back = ctx.copy_from_host(host, &y).expect("launched");
        assert_eq!(ctx.download_f32(&y).expect("y")[5], 0.5);
        assert!(back.is_done().expect("done"));
        let small = ctx.alloc_host(1).expect("host");
        let refused = ctx
            .copy_to_host(&x, small)
            .err()
            .map(|error| error.to_string());
        let expected = format!("download: host memory has 1 words, expected {WORDS}");
        assert_eq!(refused, Some(expected));
    }
}

/// A download takes the memory of an earlier, longer one, and returns its own words alone.
#[test]
fn a_download_into_the_memory_of_a_longer_one_has_its_own_length() {
    for ctx in own_contexts() {
        let x = numbers(&ctx, 1.0);
        let long = ctx.download_later(&x).expect("launched");
        assert_eq!(long.wait().expect("words").len(), WORDS, "{ctx:?}");
        let first = x.slice(0, 3).expect("window");
        let short = ctx.download_later(&first).expect("launched");
        let expected = [0.0, 1.0, 2.0].map(f32::to_bits);
        assert_eq!(short.wait().expect("words"), expected, "{ctx:?}");
    }
}

/// Work behind a value of a timeline waits for it, whoever raises it.
#[test]
fn work_waits_for_a_timeline() {
    for ctx in vulkan_contexts() {
        let Ok((timeline, _file)) = ctx.timeline() else {
            assert!(ctx.sharing_uuid().is_none(), "{ctx:?}");
            continue;
        };
        let x = numbers(&ctx, 1.0);
        let shared = ctx.alloc_shared(WORDS).expect("shared");
        assert!(shared.bytes >= 4 * WORDS as u64);
        ctx.copy(&x, &shared.buffer).expect("copy");
        ctx.raise(&timeline, 1).expect("raise");
        timeline.wait(1).expect("waited");
        ctx.await_value(&timeline, 2).expect("await");
        ctx.fill(&shared.buffer, 0).expect("fill");
        let host = ctx.alloc_host(WORDS).expect("host");
        let copy = ctx.copy_to_host(&shared.buffer, host).expect("launched");
        assert!(!copy.is_done().expect("looked"), "{ctx:?}");
        timeline.raise(2).expect("raised");
        let host = copy.wait().expect("copied");
        assert_eq!(host.words(), vec![0; WORDS], "{ctx:?}");
    }
}
