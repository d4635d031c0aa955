//! The files of models: HLX's own, Hugging Face's folders, and PEFT's adapters.

mod hugging_face;
mod language_model;
mod model_file;
mod peft;

pub use hugging_face::{
    Arriving, GGUF_FILE, LOADING, NamedTensor, Nf4Matrix, TensorSource, export_hugging_face,
    gguf_of, has_blocks, hugging_face_config, hugging_face_dtype, hugging_face_files,
    hugging_face_name, hugging_face_notes, hugging_face_tensors, import_hugging_face,
    import_hugging_face_as, import_in_blocks, import_over, import_tensors, is_exported_config,
    is_nf4_folder, parse_hugging_face_config, read_hugging_face_config, stored_sha256,
    write_as_stored,
};
pub use language_model::{
    is_hugging_face_folder, load_language_model, load_language_model_as, read_language_model_config,
};
pub use model_file::{CONFIG_FILE, MODEL_FILE, ModelConfig, load_model, model_files, save_model};
pub use peft::{
    PEFT_CONFIG_FILE, PEFT_FILE, is_own_peft_config, peft_config, peft_unties_output,
    read_peft_config,
};
