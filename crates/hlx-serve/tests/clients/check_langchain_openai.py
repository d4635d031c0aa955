"""Runs LangChain's class of OpenAI's chats against a server: `check_langchain_openai.py URL/v1 MODEL`."""

import sys

from langchain_openai import ChatOpenAI


def main(base_url: str, model: str) -> None:
    """Checks what the client gets."""
    chat = ChatOpenAI(base_url=base_url, api_key="none", model=model, seed=5, max_tokens=20, max_retries=0)
    said = [("system", "be kind"), ("human", "light")]
    whole = chat.invoke(said)
    assert whole.content
    assert whole.content == chat.invoke(said).content
    pieces = [piece.content for piece in chat.stream(said)]
    assert "".join(pieces) == whole.content
    assert len(pieces) > 2
    many = chat.batch([said, [("human", "a")], said])
    assert many[0].content == many[2].content == whole.content != many[1].content
    print("langchain_openai ok")


if __name__ == "__main__":
    main(*sys.argv[1:])
