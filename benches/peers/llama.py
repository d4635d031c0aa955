"""Generation by llama.cpp, for the table beside `hlx-bench decode --shape llama-1b --dtype q8_0`: a model of Llama 3.2 1B's
shape with random weights in Q8_0 or Q4_K_M, greedy, no download.

  python3 llama.py --programs DIR [--device vulkan|cpu] [--dtype q8_0|q4_k_m] [--layers 16] [--vocabulary 128256]
             [--prompt 128] [--new 17] [--rounds 3] [--write FILE]

DIR is what benches/peers/pack.sh makes: DIR/llama holds llama.cpp's libraries and llama-cpp-python's bindings, DIR/python
the package gguf. Prints a line with the version, then `prompt MS` and `token MS`: the whole prompt, and a token after it
with the likeliest next one on the host; medians. With --write the model's file is written, and nothing is measured.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

WIDTH, FEED_FORWARD, HEADS, KV_HEADS, VOCABULARY, LAYERS = 2048, 8192, 32, 8, 128256, 16
# A block's values, its bytes, and the places and values of its factors in f16: all others may be any bytes.
BLOCKS = {
    "Q8_0": (32, 34, [(0, 3e-4)]),
    "Q4_K": (256, 144, [(0, 6e-5), (2, 4.5e-4)]),
    "Q6_K": (256, 210, [(208, 1.5e-5)]),
}


def kind_of(dtype, name, layer, layers):
    """The kind of a matrix by llama.cpp's recipe."""
    if dtype == "q8_0":
        return "Q8_0"
    eighth = layers // 8
    is_more = layer is None or layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2
    return "Q6_K" if name == "token_embd" or (name in ("attn_v", "ffn_down") and is_more) else "Q4_K"


def write_model(path, dtype, layers, vocabulary, numpy, gguf):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(500000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(vocabulary)
    writer.add_tokenizer_model("no_vocab")
    draw = numpy.random.default_rng(1)

    def matrix(name, rows, cols, layer=None):
        kind = kind_of(dtype, name, layer, layers)
        block, block_bytes, factors = BLOCKS[kind]
        # Rows repeat, which costs the same.
        some = 64
        blocks = draw.integers(0, 256, (some, cols // block, block_bytes), dtype=numpy.uint8)
        for place, factor in factors:
            blocks[:, :, place:place + 2] = numpy.frombuffer(numpy.float16(factor).tobytes(), dtype=numpy.uint8)
        data = numpy.tile(blocks.reshape(some, -1), (-(-rows // some), 1))[:rows]
        full = f"{name}.weight" if layer is None else f"blk.{layer}.{name}.weight"
        writer.add_tensor(full, data, raw_dtype=gguf.GGMLQuantizationType[kind])

    def gains(name):
        writer.add_tensor(name, numpy.ones(WIDTH, dtype=numpy.float32))

    matrix("token_embd", vocabulary, WIDTH)
    gains("output_norm.weight")
    keys = WIDTH // HEADS * KV_HEADS
    for layer in range(layers):
        gains(f"blk.{layer}.attn_norm.weight")
        gains(f"blk.{layer}.ffn_norm.weight")
        for name, rows, cols in [
            ("attn_q", WIDTH, WIDTH), ("attn_k", keys, WIDTH), ("attn_v", keys, WIDTH), ("attn_output", WIDTH, WIDTH),
            ("ffn_gate", FEED_FORWARD, WIDTH), ("ffn_up", FEED_FORWARD, WIDTH), ("ffn_down", WIDTH, FEED_FORWARD),
        ]:
            matrix(name, rows, cols, layer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--device", choices=["vulkan", "cpu"], default="vulkan")
    parser.add_argument("--dtype", choices=["q8_0", "q4_k_m"], default="q8_0")
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--new", type=int, default=17)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    libraries = given.programs / "llama"
    if not (libraries / "libllama.so").exists():
        sys.exit(f"{libraries}: has no libllama.so (benches/peers/pack.sh --llama makes it)")
    os.environ["LLAMA_CPP_LIB_PATH"] = str(libraries.resolve())
    sys.path[:0] = [str(libraries), str(given.programs / "python")]
    import gguf
    import numpy

    if given.write:
        write_model(given.write, given.dtype, min(given.layers, LAYERS), given.vocabulary, numpy, gguf)
        return
    import llama_cpp
    from llama_cpp import llama_cpp as low

    threads = int(os.environ.get("HLX_THREADS", os.cpu_count() or 1))
    print(f"llama-cpp-python {llama_cpp.__version__}, {given.dtype.upper()}, {given.device}, {threads} threads", flush=True)
    quiet = low.llama_log_callback(lambda level, text, data: None)
    low.llama_log_set(quiet, None)
    low.llama_backend_init()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        write_model(path, given.dtype, min(given.layers, LAYERS), given.vocabulary, numpy, gguf)
        options = low.llama_model_default_params()
        options.n_gpu_layers = 0 if given.device == "cpu" else 999
        model = low.llama_model_load_from_file(path.encode(), options)
        if not model:
            sys.exit("llama.cpp cannot load the model")
        options = low.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch = given.prompt + given.new + 8, given.prompt, given.prompt
        options.n_threads = options.n_threads_batch = threads
        context = low.llama_init_from_model(model, options)
        if not context:
            sys.exit("llama.cpp cannot make a context")

        def decode(ids):
            tokens = (low.llama_token * len(ids))(*ids)
            if status := low.llama_decode(context, low.llama_batch_get_one(tokens, len(ids))):
                sys.exit(f"llama_decode: status {status}")
            logits = numpy.ctypeslib.as_array(low.llama_get_logits_ith(context, -1), shape=(given.vocabulary,))
            return int(logits.argmax())

        prompts, tokens = [], []
        for turn in range(given.rounds + 1):
            low.llama_memory_clear(low.llama_get_memory(context), True)
            start = time.perf_counter()
            token = decode([1 + place % 1000 for place in range(given.prompt)])
            prompt = (time.perf_counter() - start) * 1e3
            start = time.perf_counter()
            for _ in range(given.new):
                token = decode([token])
            if turn:
                prompts.append(prompt)
                tokens.append((time.perf_counter() - start) * 1e3 / given.new)
    print(f"prompt {statistics.median(prompts):.3f} ms\ntoken {statistics.median(tokens):.3f} ms", flush=True)


if __name__ == "__main__":
    main()
