"""Runs OpenAI's own Python client against a server: `check_openai.py http://127.0.0.1:8000/v1 MODEL`."""

import sys

import openai
from openai import OpenAI


def main(base_url: str, model: str) -> None:
    """Checks what the client gets."""
    client = OpenAI(base_url=base_url, api_key="none", max_retries=0)
    assert model in [one.id for one in client.models.list()]
    assert client.models.retrieve(model).id == model

    messages = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "light"}]
    options = {"model": model, "messages": messages, "seed": 5, "max_tokens": 20}
    whole = client.chat.completions.create(**options, n=2, logprobs=True, top_logprobs=2)
    again = client.chat.completions.create(**options, n=2, logprobs=True, top_logprobs=2)
    assert whole.choices == again.choices
    assert whole.choices[0].message.content != whole.choices[1].message.content
    assert whole.choices[0].logprobs.content[0].top_logprobs
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens

    pieces = client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True})
    text, usage = "", None
    for chunk in pieces:
        if chunk.choices:
            text += chunk.choices[0].delta.content or ""
        usage = chunk.usage or usage
    assert text == whole.choices[0].message.content
    assert usage is not None and usage.completion_tokens > 0

    written = client.completions.create(model=model, prompt=["a", "b"], seed=1, max_tokens=8, echo=True, logprobs=2)
    assert [one.text[0] for one in written.choices] == ["a", "b"]
    assert written.choices[0].logprobs.token_logprobs[0] is None
    streamed = client.completions.create(model=model, prompt="a", seed=1, max_tokens=8, echo=True, stream=True)
    assert "".join(chunk.choices[0].text for chunk in streamed) == written.choices[0].text

    # The client asks for base64 unless told otherwise.
    found = client.embeddings.create(model=model, input=["the river", "light"])
    plain = client.embeddings.create(model=model, input=["the river", "light"], encoding_format="float")
    for one, other in zip(found.data, plain.data, strict=True):
        assert [round(x, 6) for x in one.embedding] == [round(x, 6) for x in other.embedding]
        assert abs(sum(x * x for x in one.embedding) - 1) < 1e-4

    said = client.responses.create(model=model, input="light", instructions="be kind", extra_body={"seed": 5})
    assert said.output_text and said.status in ("completed", "incomplete")
    options_of_response = {"model": model, "input": "light", "instructions": "be kind", "extra_body": {"seed": 5}}
    events = list(client.responses.create(**options_of_response, stream=True))
    text = "".join(one.delta for one in events if one.type == "response.output_text.delta")
    assert text == said.output_text == events[-1].response.output_text
    assert events[-1].type == f"response.{said.status}"
    assert [one.sequence_number for one in events] == list(range(len(events)))
    with client.responses.stream(**options_of_response) as stream:
        assert [one.type for one in stream if "delta" not in one.type] == [
            one.type for one in events if "delta" not in one.type
        ]

    for wrong, kind in [
        ({"temperature": 3e38, "top_p": 2}, openai.BadRequestError),
        ({"model": "nothing"}, openai.NotFoundError),
        ({"response_format": {"type": "xml"}}, openai.BadRequestError),
    ]:
        try:
            client.chat.completions.create(**{**options, **wrong})
        except kind as error:
            assert error.body["message"], error
        else:
            raise AssertionError(f"{wrong} was answered")
    print("openai", openai.__version__, "ok")


if __name__ == "__main__":
    main(*sys.argv[1:])
