class Tokenizer:
    @classmethod
    def _of(cls, native, beside=None):
        made = cls.__new__(cls)
        made._native = native
        return made
