//! Recurrent layers: LSTM and GRU, several layers deep and in both directions.

use hlx_autograd::{Recurrence, Tensor};

use crate::error::NnError;
use crate::layers::Dropout;
use crate::{Init, Mode, Module, Parameter, ParameterBuilder, Result};

/// The sizes of [`LSTM`] and [`GRU`], with PyTorch's names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecurrentConfig {
    /// I, the width of the input.
    pub input_size: usize,
    /// H, the number of units.
    pub hidden_size: usize,
    /// Layers, each over the outputs of the one before.
    pub num_layers: usize,
    /// Whether both products of a layer have a bias.
    pub bias: bool,
    /// Whether inputs and outputs are \[B, T, ..\] instead of \[T, B, ..\].
    pub batch_first: bool,
    /// Probability that an output of a layer but the last is dropped in training.
    pub dropout: f32,
    /// Whether a second set of weights goes over the sequence from its end.
    pub bidirectional: bool,
    /// For an LSTM P, the width of hidden states that are projected, below `hidden_size`; 0 for none.
    pub proj_size: usize,
}

impl RecurrentConfig {
    /// One layer in one direction, with biases, over \[T, B, I\]: PyTorch's defaults.
    pub fn new(input_size: usize, hidden_size: usize) -> Self {
        Self {
            input_size,
            hidden_size,
            num_layers: 1,
            bias: true,
            batch_first: false,
            dropout: 0.0,
            bidirectional: false,
            proj_size: 0,
        }
    }

    /// The width of a hidden state.
    fn state_size(&self) -> usize {
        match self.proj_size {
            0 => self.hidden_size,
            projected => projected,
        }
    }

    fn directions(&self) -> usize {
        if self.bidirectional { 2 } else { 1 }
    }

    /// The rows of a layer's state, \[num_layers directions, B, H\].
    fn n_states(&self) -> usize {
        self.num_layers.saturating_mul(self.directions())
    }
}

/// The weights of one direction of one layer.
#[derive(Clone, Debug)]
struct Direction {
    weight_ih: Parameter,
    weight_hh: Parameter,
    /// Of the input's and of the hidden state's product.
    biases: Option<[Parameter; 2]>,
    /// Of the hidden states.
    weight_hr: Option<Parameter>,
    reverse: bool,
}

/// What both kinds have in common.
#[derive(Clone, Debug)]
struct Layers {
    name: &'static str,
    config: RecurrentConfig,
    /// The directions of each layer, one behind the other.
    directions: Vec<Direction>,
    /// Between the layers.
    dropouts: Vec<Dropout>,
}

impl Direction {
    fn new(
        builder: &mut ParameterBuilder,
        (config, gates): (&RecurrentConfig, usize),
        input: usize,
        suffix: &str,
    ) -> Self {
        let (hidden, state) = (config.hidden_size, config.state_size());
        let (rows, init) = (hidden.saturating_mul(gates), Init::uniform_of(hidden));
        let mut declare = |name: &str, shape: &[usize]| {
            builder.parameter(&format!("{name}_{suffix}"), shape, init)
        };
        let (weight_ih, weight_hh) = (
            declare("weight_ih", &[rows, input]),
            declare("weight_hh", &[rows, state]),
        );
        let biases = config
            .bias
            .then(|| [declare("bias_ih", &[rows]), declare("bias_hh", &[rows])]);
        let is_projected = config.proj_size > 0;
        let weight_hr = is_projected.then(|| declare("weight_hr", &[state, hidden]));
        Self {
            weight_ih,
            weight_hh,
            biases,
            weight_hr,
            reverse: suffix.ends_with("_reverse"),
        }
    }

    /// Multiplies the inputs of all positions by their weights, and runs `scan` over the products.
    fn scan<Y>(
        &self,
        x: &Tensor,
        scan: impl FnOnce(&Tensor, Recurrence<'_>) -> hlx_autograd::Result<Y>,
    ) -> Result<Y> {
        let (weight_ih, weight) = (self.weight_ih.tensor()?, self.weight_hh.tensor()?);
        let biases = self.biases.as_ref();
        let biases = biases.map(|[ih, hh]| Ok::<_, NnError>([ih.tensor()?, hh.tensor()?]));
        let biases = biases.transpose()?;
        let [bias_ih, bias] = match &biases {
            Some([ih, hh]) => [Some(ih), Some(hh)],
            None => [None, None],
        };
        let projection = self.weight_hr.as_ref().map(Parameter::tensor).transpose()?;
        let recurrence = Recurrence {
            weight: &weight,
            bias,
            projection: projection.as_ref(),
            reverse: self.reverse,
        };
        Ok(scan(&x.linear(&weight_ih, bias_ih)?, recurrence)?)
    }

    /// The state of the position computed last, \[B, H\], of those of all.
    fn last(&self, states: &Tensor) -> Result<Tensor> {
        let last = if self.reverse {
            0
        } else {
            states.shape()[1] - 1
        };
        Ok(states.select(1, last)?)
    }
}

impl Layers {
    fn new(
        name: &'static str,
        builder: &mut ParameterBuilder,
        config: RecurrentConfig,
        gates: usize,
    ) -> Self {
        let mut directions = Vec::with_capacity(config.n_states());
        for layer in 0..config.num_layers {
            let input = match layer {
                0 => config.input_size,
                _ => config.state_size().saturating_mul(config.directions()),
            };
            for suffix in ["", "_reverse"].iter().take(config.directions()) {
                let suffix = format!("l{layer}{suffix}");
                directions.push(Direction::new(builder, (&config, gates), input, &suffix));
            }
        }
        let gaps = config.num_layers.saturating_sub(1);
        let dropouts = (0..gaps).map(|_| Dropout::new(builder, config.dropout));
        Self {
            name,
            config,
            dropouts: dropouts.collect(),
            directions,
        }
    }

    fn shape_error(&self, argument: &'static str, found: &[usize], expected: String) -> NnError {
        NnError::Shape {
            op: self.name,
            argument,
            found: found.to_vec(),
            expected,
        }
    }

    /// Runs all layers. `scan` computes a direction from its input and its number: the outputs of all
    /// positions, and its last states.
    fn run<S>(
        &self,
        x: &Tensor,
        mode: &Mode,
        scan: impl Fn(&Direction, &Tensor, usize) -> Result<(Tensor, S)>,
    ) -> Result<(Tensor, Vec<S>)> {
        let mut x = x.clone();
        let mut last = Vec::with_capacity(self.config.n_states());
        let per_layer = self.config.directions();
        for (layer, directions) in self.directions.chunks(per_layer).enumerate() {
            if let Some(dropout) = layer.checked_sub(1).and_then(|gap| self.dropouts.get(gap)) {
                x = dropout.forward(&x, mode)?;
            }
            let mut outputs = Vec::with_capacity(per_layer);
            for (number, direction) in directions.iter().enumerate() {
                let (y, state) = scan(direction, &x, layer * per_layer + number)?;
                outputs.push(y);
                last.push(state);
            }
            x = match outputs.as_slice() {
                [one] => one.clone(),
                both => Tensor::cat(&both.iter().collect::<Vec<_>>(), 2)?,
            };
        }
        Ok((x, last))
    }

    /// Fails for numbers that no layer can have.
    fn check_config(&self) -> Result<()> {
        let RecurrentConfig {
            num_layers,
            hidden_size: hidden,
            proj_size: projected,
            ..
        } = self.config;
        let reason = if num_layers == 0 {
            "num_layers is 0, expected at least 1".to_owned()
        } else if projected > 0 && self.name == GRU_NAME {
            format!("proj_size is {projected}, expected 0: only an LSTM has projections")
        } else if projected > 0 && projected >= hidden {
            format!("proj_size is {projected}, expected below hidden_size, {hidden}")
        } else {
            return Ok(());
        };
        let what = self.name;
        Err(NnError::Config { what, reason })
    }

    /// The input as \[B, T, I\], and whether it had a dimension of samples.
    fn samples_first(&self, x: &Tensor) -> Result<(Tensor, bool)> {
        let config = &self.config;
        self.check_config()?;
        let fits = matches!(x.rank(), 2 | 3)
            && x.shape()[x.rank() - 1] == config.input_size
            && x.shape()[x.rank() - 2 - usize::from(x.rank() == 3 && !config.batch_first)] > 0;
        if !fits {
            let axes = if config.batch_first {
                "[B, T, "
            } else {
                "[T, B, "
            };
            let input = config.input_size;
            let expected = format!("{axes}{input}] or [T, {input}] with T of at least 1");
            return Err(self.shape_error("x", x.shape(), expected));
        }
        Ok(match (x.rank(), config.batch_first) {
            (2, _) => (x.unsqueeze(0)?, false),
            (_, true) => (x.clone(), true),
            (_, false) => (x.transpose(0, 1)?, true),
        })
    }

    /// An output of all positions in the input's order of dimensions.
    fn like_input(&self, y: &Tensor, has_samples: bool) -> Result<Tensor> {
        Ok(match (has_samples, self.config.batch_first) {
            (false, _) => y.squeeze(0)?,
            (true, true) => y.clone(),
            (true, false) => y.transpose(0, 1)?,
        })
    }

    /// The first states of each layer and direction, \[B, width\]; none for zeros.
    fn first_states(
        &self,
        argument: &'static str,
        width: usize,
        states: Option<&Tensor>,
        batch: usize,
        has_samples: bool,
    ) -> Result<Vec<Option<Tensor>>> {
        let n = self.config.n_states();
        let Some(states) = states else {
            return Ok(vec![None; n]);
        };
        let expected = match has_samples {
            true => vec![n, batch, width],
            false => vec![n, width],
        };
        if states.shape() != expected {
            return Err(self.shape_error(argument, states.shape(), format!("{expected:?}")));
        }
        let states = match has_samples {
            true => states.clone(),
            false => states.unsqueeze(1)?,
        };
        (0..n)
            .map(|place| Ok(Some(states.select(0, place)?)))
            .collect()
    }

    /// The last states of all layers and directions, \[num_layers directions, B, H\].
    fn stacked<'a>(
        &self,
        last: impl Iterator<Item = &'a Tensor>,
        has_samples: bool,
    ) -> Result<Tensor> {
        let all = Tensor::stack(&last.collect::<Vec<_>>(), 0)?;
        Ok(if has_samples { all } else { all.squeeze(1)? })
    }
}

/// What the errors of [`GRU`] call it.
const GRU_NAME: &str = "gru";

/// A long short-term memory, as `torch.nn.LSTM`.
///
/// Parameters have PyTorch's names and shapes: `weight_ih_l0` \[4 H, I\], `weight_hh_l0` \[4 H, H\],
/// `bias_ih_l0`, `bias_hh_l0` \[4 H\], and so on for each layer, with `_reverse` for the other
/// direction; gates are i, f, g, o. With `proj_size` P, hidden states are the units' products with
/// `weight_hr_l0` \[P, H\], and `weight_hh_l0` is \[4 H, P\]. All are drawn uniform within
/// +-1 / sqrt(H).
///
/// ```
/// use hlx_autograd::Tensor;
/// use hlx_core::Device;
/// use hlx_nn::{Mode, LSTM, Model, RecurrentConfig};
///
/// let device = Device::open("cpu")?;
/// let config = RecurrentConfig { proj_size: 3, ..RecurrentConfig::new(4, 6) };
/// let lstm = Model::new(&device, 42, |b| Ok(LSTM::new(b, config)))?;
/// let x = Tensor::randn(&device, &[5, 2, 4], 1)?;
/// let (y, (h, c)) = lstm.forward_with(&x, &Mode::eval(), None)?;
/// assert_eq!((y.shape(), h.shape(), c.shape()), (&[5, 2, 3][..], &[1, 2, 3][..], &[1, 2, 6][..]));
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LSTM(Layers);

/// A layer of gated recurrent units, as `torch.nn.GRU`.
///
/// Parameters as [`LSTM`]'s with \[3 H, ..\]; gates are r, z, n.
#[derive(Clone, Debug)]
pub struct GRU(Layers);

impl LSTM {
    /// Declares the parameters.
    pub fn new(builder: &mut ParameterBuilder, config: RecurrentConfig) -> Self {
        Self(Layers::new("lstm", builder, config, 4))
    }

    /// Applies the layers to \[T, B, I\] (with `batch_first` \[B, T, I\], without samples \[T, I\]);
    /// returns the hidden states of the last layer at all positions, \[T, B, H\] (in both directions 2 H
    /// wide), and the last hidden state and cells of all layers and directions, \[L, B, H\]. With a
    /// projection hidden states are P wide.
    ///
    /// `initial` are hidden state and cells before the first position, \[L, B, H\]; zeros if left out.
    ///
    /// # Errors
    /// [`NnError::Shape`], [`NnError::Config`] without a layer or with a projection that is not narrower
    /// than the units, and what the device reports.
    pub fn forward_with(
        &self,
        x: &Tensor,
        mode: &Mode,
        initial: Option<(&Tensor, &Tensor)>,
    ) -> Result<(Tensor, (Tensor, Tensor))> {
        let (x, has_samples) = self.0.samples_first(x)?;
        let batch = x.shape()[0];
        let (hidden, cells) = initial.unzip();
        let config = &self.0.config;
        let (layers, width) = (&self.0, config.state_size());
        let hidden = layers.first_states("h_0", width, hidden, batch, has_samples)?;
        let cells = layers.first_states("c_0", config.hidden_size, cells, batch, has_samples)?;
        let (y, last) = self.0.run(&x, mode, |direction, x, place| {
            let first = hidden[place].as_ref().zip(cells[place].as_ref());
            let (y, c) = direction.scan(x, |x, recurrence| x.lstm_scan(recurrence, first))?;
            let last = (direction.last(&y)?, direction.last(&c)?);
            Ok((y, last))
        })?;
        let h = self.0.stacked(last.iter().map(|(h, _)| h), has_samples)?;
        let c = self.0.stacked(last.iter().map(|(_, c)| c), has_samples)?;
        Ok((self.0.like_input(&y, has_samples)?, (h, c)))
    }
}

impl GRU {
    /// Declares the parameters.
    pub fn new(builder: &mut ParameterBuilder, config: RecurrentConfig) -> Self {
        Self(Layers::new(GRU_NAME, builder, config, 3))
    }

    /// As [`LSTM::forward_with`], with a hidden state alone.
    ///
    /// # Errors
    /// As [`LSTM::forward_with`].
    pub fn forward_with(
        &self,
        x: &Tensor,
        mode: &Mode,
        initial: Option<&Tensor>,
    ) -> Result<(Tensor, Tensor)> {
        let (x, has_samples) = self.0.samples_first(x)?;
        let batch = x.shape()[0];
        let width = self.0.config.hidden_size;
        let hidden = self
            .0
            .first_states("h_0", width, initial, batch, has_samples)?;
        let (y, last) = self.0.run(&x, mode, |direction, x, place| {
            let first = hidden[place].as_ref();
            let y = direction.scan(x, |x, recurrence| x.gru_scan(recurrence, first))?;
            let last = direction.last(&y)?;
            Ok((y, last))
        })?;
        let h = self.0.stacked(last.iter(), has_samples)?;
        Ok((self.0.like_input(&y, has_samples)?, h))
    }
}

impl Module for LSTM {
    /// The hidden states of all positions, from zeros: the first result of [`LSTM::forward_with`].
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        Ok(self.forward_with(x, mode, None)?.0)
    }
}

impl Module for GRU {
    /// The hidden states of all positions, from zeros: the first result of [`GRU::forward_with`].
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        Ok(self.forward_with(x, mode, None)?.0)
    }
}
