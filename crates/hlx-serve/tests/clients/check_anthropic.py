"""Runs Anthropic's own Python client against a server: `check_anthropic.py http://127.0.0.1:8000 MODEL`."""

import sys

import anthropic
from anthropic import Anthropic


def main(base_url: str, model: str) -> None:
    """Checks what the client gets."""
    client = Anthropic(base_url=base_url, api_key="none", max_retries=0)
    messages = [{"role": "user", "content": [{"type": "text", "text": "light"}]}]
    options = {"model": model, "messages": messages, "system": "be kind", "max_tokens": 20, "extra_body": {"seed": 5}}
    whole = client.messages.create(**options)
    assert whole.content[0].text
    assert whole.stop_reason in ("end_turn", "max_tokens")
    with client.messages.stream(**options) as stream:
        text = "".join(stream.text_stream)
        last = stream.get_final_message()
    assert text == whole.content[0].text == last.content[0].text
    assert last.stop_reason == whole.stop_reason
    assert last.usage.output_tokens == whole.usage.output_tokens
    stop = text[3:5]
    cut = client.messages.create(**options, stop_sequences=[stop])
    assert (cut.stop_reason, cut.stop_sequence) == ("stop_sequence", stop)
    assert cut.content[0].text == text[: text.index(stop)]
    counted = client.messages.count_tokens(model=model, messages=messages, system="be kind")
    used = whole.usage
    assert counted.input_tokens == used.input_tokens + (used.cache_read_input_tokens or 0)
    for wrong, kind in [
        ({"model": "nothing"}, anthropic.NotFoundError),
        ({"messages": []}, anthropic.BadRequestError),
        ({"extra_body": {"temperature": -1}}, anthropic.BadRequestError),
    ]:
        try:
            client.messages.create(**{**options, **wrong})
        except kind as error:
            assert error.body["error"]["message"], error
        else:
            raise AssertionError(f"{wrong} was answered")
    print("anthropic", anthropic.__version__, "ok")


if __name__ == "__main__":
    main(*sys.argv[1:])
