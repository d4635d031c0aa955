//! Scaled dot-product attention in blocks, in which each query sees a range of keys: causal or not, windows, documents
//! packed in a row, padding, caches, grouped heads; strided operands. The T x S matrix is never stored whole.
//!
//! [`query_ranges`] and [`key_ranges`] compute which keys a query sees ([`Limits`] has the rule); what
//! it does not see is skipped, never computed and masked, so that a NaN or an infinity there does not reach it. For query
//! `i` of head `h`, with the keys and values of head `h / (H / G)`, `G` the number of key heads, and the keys `j` that
//! `i` sees, in blocks of 32 that count from the first key of the query's document:
//! `s_j = (sum_d q[i, d] k[j, d]) * scale`, with a cap `s_j = cap * tanh(s_j * (1 / cap))`. A block of
//! which the query sees a key updates with `m' = max(m, max_j s_j)`, `c = exp(m - m')`,
//! `p_j = exp(s_j - m')`: `l = l c`, then `l = l + p_j` in order; `o = o c`, then
//! `o = fma(w_j, v[j], o)` in order, `w_j = p_j`, or, where weights are dropped,
//! `p_j * (1 / (1 - p))` or 0. At the end `o = o / l`, and `stats` keeps `(m, 1 / l)`. A query that sees
//! nothing has zeros in all three. (Milakov and Gimelshein 2018; Dao et al. 2022.)
//!
//! Backward: `delta_i = sum_d do[i, d] o[i, d]`, `p_ij = exp(s_ij - m_i) * (1 / l_i)`,
//! `dp_ij = sum_d do[i, d] v[j, d]`, times `1 / (1 - p)` or replaced by 0 where weights are dropped;
//! `ds_ij = p_ij (dp_ij - delta_i)`, with a cap `(p_ij fma(-t, t, 1)) (dp_ij - delta_i)` of
//! `t = tanh(s / cap)`; `dq_i = (sum_j ds_ij k_j) * scale`; `dk_j = (sum ds_ij q_i) * scale` and
//! `dv_j = sum w_ij do_i` are one chain each over the query heads of the key head in order, and
//! in each over the queries that see `j` in order.
//!
//! Every sum is one fma chain in increasing order of its index, from +0, and ends with -0 replaced
//! by +0. So a query's result depends on the keys of its own document alone: packed in a row, padded,
//! batched, or computed from a cache, it has the bits that it has by itself. The `integer` arithmetic has sums of its own
//! (`attention/quantised.rs`).
//!
//! The keys and values of a cache lie in pages of 32 positions, which are the blocks of its queries, and a table says where
//! (`pages.rs`): which page a block has changes no bit.
//!
//! Dropped weights: with `(a, b, ..) = Philox(counter = (0, first sample + b, step, purpose), seed)`, the
//! draw of a weight is component `n % 4` of `Philox(counter = (n / 4, position, h, 0), key = (a, b))`,
//! `n` the key's place in its document and `position` the query's in its row. It stays if its uniform
//! number is at least p, as in [`dropout`](crate::dropout).
//!
//! [`PreparedAttention`] computes it by one of several sets of kernels, which give the same bits ([`Schedule`],
//! chosen by `attention/plan.rs`): of packed causal attention (`packed.rs`), of few queries (`few.rs`), of rows of queries
//! (`rows.rs`, of floats and of quantised operands). GPUs that have the memory store `w_ij` and `ds_ij` of floats of some heads at a
//! time (`stored.rs`): five products of queries and keys instead of seven. Elsewhere dQ's kernel and that of dK and dV
//! compute them, each for itself.
//!
//! Shapes: `q` `[B, T, H, D]`, `k`, `v` `[B, S, G, D]`, or a packed `[B, T, 3, H, D]`; `o`, `d_o`, `dq` `[B, T, H, D]`,
//! `dk`, `dv` `[B, S, G, D]`, contiguous; `stats` `[B, H, T, 2]`; `delta` `[B, H, T]`; `D` from 1 to 256.
//! PyTorch: `torch.nn.functional.scaled_dot_product_attention(..., enable_gqa=True)`.

pub mod append;
mod cached;
mod cpu;
mod entry;
mod few;
mod floats;
mod halves;
mod heads;
mod operands;
mod packed;
mod pages;
mod pass;
mod plan;
mod quantised;
mod ranges;
mod rows;
mod shaders;
mod sizes;
mod stored;
#[cfg(test)]
mod tests;

pub use cached::CachedHeads;
pub use entry::PreparedAttention;
pub use heads::QuantisedHeads;
pub use operands::{AttentionGradients, AttentionOperands, AttentionOutput};
pub use pages::{PAGE, Pages};
pub use plan::Schedule;
pub use quantised::{integer_attention_of_cache, joint_gradients};
pub use ranges::{Limits, key_ranges, query_ranges};
pub use sizes::{Attention, WIDEST_HEAD, WeightDropout, default_scale, layouts_of_packed};
