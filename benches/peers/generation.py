"""Generation by transformers, for the table beside `hlx-bench decode`: a model of Qwen3-0.6B's shape with
random weights, greedy, no download.

usage: generation.py [--dtype bfloat16|float32] [--batch 1,64] [--prompt 512] [--new 128] [--first 1024]
                     [--device cuda|cpu] [--threads N] [--layers 28] [--vocabulary 151936] [--rounds 3]

Prints, for each batch, the milliseconds a token by `generate` with its default cache and with its static cache
(which transformers compiles on a GPU), and the milliseconds to the first token of a long prompt.
"""
import argparse
import statistics
import time

import torch
import transformers

from causal import of_transformers


# config.json of Qwen3-0.6B, by the names of causal.py.
SHAPE = {
    "class": "qwen3", "vocabulary": 151936, "width": 1024, "heads": 16, "kv_heads": 8, "head_width": 128,
    "feed_forward": 3072, "tied": 1, "tokens": 40960,
}


def model(device, dtype, layers, vocabulary):
    torch.manual_seed(0)
    with torch.device(device):
        found = of_transformers({**SHAPE, "layers": layers, "vocabulary": vocabulary})
    found.generation_config.pad_token_id = 0
    return found.to(dtype).eval()


def seconds(work, device, rounds):
    """The median time of rounds of the work, after one that does not count."""
    times = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--batch", default="1,64")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--first", type=int, default=1024)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--vocabulary", type=int, default=SHAPE["vocabulary"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--static", action="store_true", help="the static cache too")
    chosen = parser.parse_args()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    torch.backends.cuda.matmul.allow_tf32 = False
    net = model(chosen.device, getattr(torch, chosen.dtype), chosen.layers, chosen.vocabulary)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {chosen.device}, {chosen.dtype}")

    def prompt(batch, length):
        return torch.randint(0, chosen.vocabulary, (batch, length), device=chosen.device)

    with torch.no_grad():
        ids = prompt(1, chosen.first)
        first = seconds(lambda: net(ids, use_cache=True, logits_to_keep=1), chosen.device, chosen.rounds)
        print(f"first token of {chosen.first}: {first * 1e3:.2f} ms", flush=True)
        for batch in map(int, chosen.batch.split(",")):
            ids = prompt(batch, chosen.prompt)
            for cache in ["dynamic"] + ["static"] * chosen.static:
                options = {} if cache == "dynamic" else {"cache_implementation": cache}

                def generate(new):
                    net.generate(ids, do_sample=False, min_new_tokens=new, max_new_tokens=new,
                                 attention_mask=torch.ones_like(ids), use_cache=True, **options)

                long = seconds(lambda: generate(chosen.new), chosen.device, chosen.rounds)
                one = seconds(lambda: generate(1), chosen.device, chosen.rounds)
                token = (long - one) / (chosen.new - 1)
                print(f"batch {batch}, {cache} cache: {token * 1e3:.3f} ms a step, {batch / token:.0f} tokens/s", flush=True)


if __name__ == "__main__":
    main()
