//! GGUF files: their tensors, the model that they hold, its tokenizer, and the file written again.

use hlx_gguf::{Block, Gguf, GgufModel, NewTensor, quantise, to_gguf};
use hlx_text::{Tokenizer, TokenizerFiles};

use crate::tokens::use_tokenizer;

/// Tensors of more values are not read.
const MAX_VALUES: usize = 1 << 16;

/// Reads a file, and all that is in it.
pub fn gguf(data: &[u8]) {
    let Ok(file) = Gguf::from_bytes(data.to_vec()) else {
        return;
    };
    use_tensors(&file);
    write_again(&file);
    if let Ok(files) = file.tokenizer_files() {
        read_tokenizer(files);
    }
    let Ok(model) = GgufModel::new(file) else {
        return;
    };
    let _ = hlx_nn::parse_hugging_face_config(&model.config_json());
    for (name, place) in model.places() {
        let n: usize = place.shape.iter().product();
        if n <= MAX_VALUES {
            let values = model.values(name).expect("a tensor of the file");
            assert_eq!(values.len(), n, "{name}");
            let _ = model.stored(name);
        }
    }
}

fn use_tensors(file: &Gguf) {
    for tensor in file.tensors() {
        let n: usize = tensor.shape().iter().product();
        if n > MAX_VALUES {
            continue;
        }
        let bytes = file.read(tensor).expect("checked bytes");
        let values = file.values(tensor).expect("checked bytes");
        assert_eq!(values.len(), n);
        let kind = tensor.kind();
        if kind.is_float() {
            continue;
        }
        // Whatever blocks hold, they can be made again, unless a scale is an infinity or NaN.
        let _ = quantise(kind, &values, tensor.columns(), None);
        let block = Block::unpack(kind, &bytes[..kind.block_bytes()]).expect("a block");
        let mut packed = vec![0; kind.block_bytes()];
        block.pack(kind, &mut packed).expect("a block");
    }
}

/// The reader's own limits let everything be written that it has read.
fn write_again(file: &Gguf) {
    let tensors = file.tensors().map(|tensor| NewTensor {
        name: tensor.name().to_owned(),
        kind: tensor.kind(),
        shape: tensor.shape().to_vec(),
    });
    let tensors: Vec<NewTensor> = tensors.collect();
    let bytes = |at: usize| file.read(file.tensor(&tensors[at].name).expect("a tensor"));
    if let Ok(written) = to_gguf(file.metadata(), &tensors, bytes) {
        let back = Gguf::from_bytes(written).expect("a file that was written");
        let again = to_gguf(back.metadata(), &tensors, bytes).expect("bytes");
        let twice = to_gguf(file.metadata(), &tensors, bytes).expect("bytes");
        assert!(again == twice);
    }
}

fn read_tokenizer(files: Vec<(&'static str, Vec<u8>)>) {
    let (tokenizer, others): (Vec<_>, Vec<_>) = files
        .into_iter()
        .partition(|(name, _)| *name == "tokenizer.json");
    let others = others
        .into_iter()
        .map(|(name, bytes)| (name.to_owned(), bytes));
    let others = TokenizerFiles::new(others);
    for (_, json) in tokenizer {
        if let Ok(tokenizer) = Tokenizer::from_files(&json, others.clone()) {
            use_tokenizer(&tokenizer);
        }
    }
}

/// The first inputs: a small file with every kind of block, and models with either kind of tokenizer.
pub fn gguf_seeds() -> [(&'static str, &'static [u8]); 3] {
    [
        (
            "kinds",
            include_bytes!("../../../crates/hlx-gguf/tests/fixtures/small.gguf"),
        ),
        (
            "pairs",
            include_bytes!("../../../crates/hlx-gguf/tests/fixtures/tiny_pairs.gguf"),
        ),
        (
            "pieces",
            include_bytes!("../../../crates/hlx-gguf/tests/fixtures/tiny_pieces.gguf"),
        ),
    ]
}
