//! Folders as they circulate, in small sizes: the same keys, the logits of `transformers`, no line of complaint.

use hlx_nn::hugging_face_notes;
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Folder {
    config: String,
    newer: String,
    tensors: BTreeMap<String, Vec<usize>>,
}

/// The positions of a text, and the ids that there are.
const TIME: usize = 20;
const VOCABULARY: u32 = 43;

/// The ids of `make_causal.py`.
fn ids(device: &Device, name: &str) -> Result<Tensor> {
    let seed = format!("{name}.ids");
    let seed = seed.bytes().fold(0x811c_9dc5_u32, |state, byte| {
        (state ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let id = |index: u32| {
        let mut x = index.wrapping_mul(0x9e37_79b1).wrapping_add(seed);
        x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
        x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        (x ^ (x >> 16)) % VOCABULARY
    };
    let ids: Vec<u32> = (0..TIME as u32).map(id).collect();
    Ok(Tensor::from_slice::<u32>(device, &ids, &[1, TIME])?.with_samples(0)?)
}

#[test]
fn folders_as_they_circulate_have_the_logits_of_transformers() -> Result {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/circulating.safetensors"
    );
    let bytes = fs::read(path)?;
    let (_, metadata) = SafeTensors::read_metadata(&bytes)?;
    let named = metadata.metadata().as_ref().ok_or("no metadata")?;
    let folders: BTreeMap<String, Folder> = serde_json::from_str(&named["folders"])?;
    assert_eq!(folders.len(), 11);
    let file = SafeTensors::deserialize(&bytes)?;
    let device = hlx_core::testing::cpu()?;
    for (name, circulating) in &folders {
        let words = file.tensor(name)?;
        let words = words.data().as_chunks::<4>().0.iter();
        let expected: Vec<f32> = words.map(|&word| f32::from_le_bytes(word)).collect();
        let ids = ids(&device, name)?;
        let mut configs = Vec::new();
        for (form, config) in [
            ("older", &circulating.config),
            ("newer", &circulating.newer),
        ] {
            let folder = folder(&format!("circulating-{name}-{form}"))?;
            fs::write(folder.join("config.json"), config)?;
            let tensors = made_of(&circulating.tensors, name);
            write(&folder.join("model.safetensors"), &tensors, Dtype::F32)?;
            // Mistral's folders have its own file beside transformers'.
            fs::write(folder.join("consolidated.safetensors"), "of other names")?;
            assert_eq!(hugging_face_notes(&folder)?, [""; 0], "{name}, {form}");
            let model = import_hugging_face(&device, &folder)?;
            let found = model.logits(&CausalInput::new(&ids), &Mode::eval())?;
            assert_near(name, &found.to_vec::<f32>()?, &expected, LOGIT_TOLERANCE);
            configs.push(model.config().clone());
            // What is written again is the same model.
            let exported = folder.join("exported");
            export_hugging_face(model.weights(), model.config(), &exported)?;
            assert_eq!(&read_hugging_face_config(&exported)?, model.config());
            assert_eq!(hugging_face_notes(&exported)?, [""; 0], "{name}, exported");
            fs::remove_dir_all(&folder)?;
        }
        assert_eq!(configs[0], configs[1], "{name}: two forms of one model");
    }
    Ok(())
}
