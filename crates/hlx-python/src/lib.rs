//! The native layer of the Python package `hlx`, imported as `hlx._hlx`: tensors, devices and contracts.
//!
//! It is thin: what Python's protocols need to be native (operators, indexing, buffers) and the operations of
//! [`hlx_autograd::Tensor`] one to one. Names, keywords and forms of PyTorch are in `python/hlx`.

mod arguments;
mod autograd;
mod buffers;
mod clip;
mod compute;
mod contract;
mod copies;
mod create;
mod device;
mod dlpack;
mod dtype;
mod error;
mod files;
mod fork;
mod gate;
mod host;
mod keywords;
mod models;
mod number;
mod operand;
mod operations;
mod optimizer;
mod protocols;
mod random;
mod read;
mod runs;
mod tensor;
mod text;
mod wait;
mod warnings;

use pyo3::pymodule;

#[pymodule(gil_used = false)]
mod _hlx {
    #[pymodule_export]
    use crate::autograd::{
        HookHandle, autocast_types, backward, custom, gradients, is_grad_enabled, set_autocast,
        set_grad_enabled, with_samples,
    };
    #[pymodule_export]
    use crate::compute::{
        ComputeProgram, RecordedGraph, isolate, isolated_zeros, open_device, set_timing,
        take_timing,
    };
    #[pymodule_export]
    use crate::contract::{
        PreparedContract, PyStore, check_handle, contract_json, inspect_spirv, own_kernel,
        put_contract, shader_interface,
    };
    #[pymodule_export]
    use crate::create::{
        arange, bernoulli, eye_of, full, linspace, ones, rand, randint, randn, tensor, zeros,
    };
    #[pymodule_export]
    use crate::device::{
        PyDevice, devices, empty_cache, finish, get_default_device, memory, set_default_device,
        synchronize,
    };
    #[pymodule_export]
    use crate::dlpack::from_dlpack;
    #[pymodule_export]
    use crate::dtype::{PyDType, default_dtype, set_default_dtype};
    #[pymodule_export]
    use crate::files::{from_safetensors, to_safetensors};
    #[pymodule_export]
    use crate::fork::note_fork;
    #[pymodule_export]
    use crate::models::{PyChat, PyKvCache, PyLanguageModel, PyStream};
    #[pymodule_export]
    use crate::operations::{
        attention::{attention, dropout, note_counters, noted_counters, rope, set_counter},
        elementwise::{
            add_scaled, binary, binary_, clamp_max, clamp_min, div_rounded, in_place, masked_fill,
            softplus_with, unary, unary_, where_,
        },
        images::{
            adaptive_avg_pool2d, avg_pool2d, conv_transpose1d, conv_transpose2d, conv1d, conv2d,
            interpolate, interpolate_by, max_pool2d, max_pool2d_with_indices,
        },
        indexing::{
            gather, index_add, index_put, index_select, masked_select, scatter, scatter_add,
            take_along_dim,
        },
        joining::{cat, pad, repeat, repeat_interleave, repeat_interleave_by, roll, stack},
        losses::{
            binary_cross_entropy_with_logits, cross_entropy_loss, huber_loss, kl_div, l1_loss,
            mse_loss, nll_loss, smooth_l1_loss,
        },
        movement::{
            r#become, chunk, clone, contiguous, copy_, detach, diagonal, equal, expand, flatten,
            flip, narrow, permute, reshape, select, slice, split, squeeze, to, to_dtype, transpose,
            tril, triu, unflatten, unfold, unsqueeze, view,
        },
        norms::{
            batch_norm, batch_norm_by, embedding, embedding_padded, group_norm, layer_norm,
            log_softmax, rms_norm, softmax_dim,
        },
        products::{einsum, linear, matmul, outer},
        recurrent::{gru_scan, lstm_scan},
        reductions::{
            all, amax, amin, any, argmax, argmin, argsort, cumprod, cumsum, logsumexp, max_dim,
            mean_dim, min_dim, norm, prod, sort, std, sum_dim, topk, var,
        },
    };
    #[pymodule_export]
    use crate::optimizer::PyOptimizer;
    #[pymodule_export]
    use crate::protocols::index::TensorIterator;
    #[pymodule_export]
    use crate::random::{
        PyGenerator, default_state, epoch_order, initial_seed, manual_seed, next_epoch, next_seed,
        set_default_state,
    };
    #[pymodule_export]
    use crate::read::{digest, state_digest};
    #[pymodule_export]
    use crate::runs::{
        EventWriter, PyRunWorker, check_audit, new_key, plot_runs, run_chain, run_checkpoints,
        run_config, run_facts, run_metrics, start_audit, start_training, start_verification,
    };
    #[pymodule_export]
    use crate::tensor::PyTensor;
    #[pymodule_export]
    use crate::text::{
        prepare::prepare_texts,
        shards::{PyRows, PyShards},
        stream::PyDecodeStream,
        tokenizer::PyTokenizer,
        training::{PyWordCounter, characters_tokenizer, train_tokenizer},
    };
}
