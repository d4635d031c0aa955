//! Models whose configuration ties the output to the embedding, over files that do not, and the other way round.

use std::sync::atomic::{AtomicUsize, Ordering};

use hlx_autograd::DType;
use hlx_nn::{hugging_face_notes, import_hugging_face_as};

use super::*;

const HEAD: &str = "lm_head.weight";

/// A folder with a fixture's model, tied or not, of changed tensors.
fn changed(name: &str, tied: bool, change: impl Fn(&mut Tensors)) -> Result<PathBuf> {
    let fixture = Fixture::read(name)?;
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let folder = folder(&format!("tied-{name}-{number}"))?;
    let mut keys: serde_json::Map<_, _> = serde_json::from_str(&fixture.config)?;
    keys.insert("tie_word_embeddings".into(), tied.into());
    fs::write(folder.join("config.json"), serde_json::to_string(&keys)?)?;
    let mut tensors = made(&fixture, name);
    change(&mut tensors);
    write(&folder.join("model.safetensors"), &tensors, Dtype::F32)?;
    Ok(folder)
}

fn logits_of(folder: &Path) -> Result<Vec<f32>> {
    let device = hlx_core::testing::cpu()?;
    let model = import_hugging_face(&device, folder)?;
    let ids = Tensor::from_slice::<u32>(&device, &[1, 7, 3, 12, 5], &[1, 5])?.with_samples(0)?;
    let mode = Mode::eval();
    Ok(model
        .logits(&CausalInput::new(&ids), &mode)?
        .to_vec::<f32>()?)
}

/// The name of the embedding in a family's files.
fn table(name: &str) -> &'static str {
    match name {
        "gpt2" => "transformer.wte.weight",
        _ => "model.embed_tokens.weight",
    }
}

/// GPT-2, Qwen2 and Gemma 2 are tied, and Llama 3 is not.
const MODELS: [&str; 4] = ["gpt2", "qwen2", "gemma2", "llama3"];

fn with_head(name: &str, shift: f32) -> impl Fn(&mut Tensors) {
    move |tensors: &mut Tensors| {
        let mut head = tensors[table(name)].clone();
        let words = head.1.as_chunks_mut::<4>().0.iter_mut();
        words.for_each(|word| *word = (f32::from_le_bytes(*word) + shift).to_le_bytes());
        tensors.insert(HEAD.to_owned(), head);
    }
}

#[test]
fn an_output_that_differs_from_the_embedding_it_is_tied_to_stays() -> Result {
    for name in MODELS {
        let folder = changed(name, true, with_head(name, 0.25))?;
        let lines = hugging_face_notes(&folder)?;
        assert_eq!(lines.len(), 1, "{lines:#?}");
        assert!(
            lines[0].starts_with(
                "`tie_word_embeddings` is true, and the files have an `lm_head.weight`"
            )
        );
        assert!(!read_hugging_face_config(&folder)?.tied_output);
        let found = logits_of(&folder)?;
        let untied = changed(name, false, with_head(name, 0.25))?;
        assert_eq!(hugging_face_notes(&untied)?, [""; 0]);
        assert_eq!(logits_of(&untied)?, found, "{name}");
        // In 16 bits too, and exported as what it is.
        let device = hlx_core::testing::cpu()?;
        let half = import_hugging_face_as(&device, &folder, DType::BF16)?;
        assert!(!half.module().config().tied_output);
        let model = import_hugging_face(&device, &folder)?;
        let exported = folder.join("exported");
        export_hugging_face(model.weights(), model.config(), &exported)?;
        assert_eq!(logits_of(&exported)?, found, "{name}");
        fs::remove_dir_all(&folder)?;
        fs::remove_dir_all(&untied)?;
    }
    Ok(())
}

#[test]
fn an_output_equal_to_the_embedding_is_tied_to_it() -> Result {
    for name in MODELS {
        let tied = changed(name, true, |tensors| {
            tensors.remove(HEAD);
        })?;
        let expected = logits_of(&tied)?;
        let folder = changed(name, true, with_head(name, 0.0))?;
        assert_eq!(hugging_face_notes(&folder)?, [""; 0]);
        assert!(read_hugging_face_config(&folder)?.tied_output);
        assert_eq!(logits_of(&folder)?, expected, "{name}");
        // And where the files have the output alone, it is the matrix of both.
        let head_alone = changed(name, true, |tensors| {
            let embedding = tensors.remove(table(name)).expect("there");
            tensors.insert(HEAD.to_owned(), embedding);
        })?;
        assert_eq!(logits_of(&head_alone)?, expected, "{name}");
        fs::remove_dir_all(&head_alone)?;
        fs::remove_dir_all(&tied)?;
    }
    Ok(())
}

#[test]
fn an_output_that_is_missing_from_an_untied_model_is_refused() -> Result {
    let device = hlx_core::testing::cpu()?;
    for name in MODELS {
        let folder = changed(name, false, |tensors| {
            tensors.remove(HEAD);
        })?;
        let error = import_hugging_face(&device, &folder).expect_err("refused");
        let expected = "the tensor lm_head.weight is missing, and the configuration does not tie the \
                        output to the embedding (`tie_word_embeddings`)";
        assert!(error.to_string().ends_with(expected), "{name}: {error}");
        fs::remove_dir_all(&folder)?;
    }
    Ok(())
}
