//! A run as a terminal shows it: how far it is, its losses, its last figures, sample and messages.
//!
//! A [`View`] takes events in and draws itself into a frame of any size. It knows no terminal.

use std::collections::VecDeque;
use std::time::Duration;

use hlx_core::{printable, printable_lines};
use hlx_train::run::{EvalSplit, Metric};
use hlx_train::train::{RunMemory, written};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Borders, Chart, Dataset, GraphType, Paragraph, Wrap};

use crate::text::{duration, number, short, with_commas};
use crate::thin::{Point, thin};

/// Messages that are held.
const MOST_MESSAGES: usize = 100;
/// The columns of the figures beside the curves: `memory   1023.9 MiB of 139.0 GiB`, and a border.
const FIGURES_WIDTH: u16 = 33;
const TRAINING: Color = Color::Cyan;
const EVALUATION: Color = Color::Yellow;

/// What is shown of a run.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The run's name.
    pub title: String,
    /// The model, the data and the device.
    pub subtitle: String,
    /// What a loss is a mean over.
    pub unit: &'static str,
    /// What the run is doing: `training`, `stopped`.
    pub state: String,
    /// What the keys do, or a question.
    pub footer: String,
    /// What the run takes of the device's memory, where it is known.
    pub memory: Option<RunMemory>,
    step: u64,
    total_steps: Option<u64>,
    ms_per_step: Option<f64>,
    training: Vec<Point>,
    evaluated: Vec<Point>,
    last: Option<Metric>,
    accuracy: Option<f64>,
    sample: Option<(u64, String)>,
    messages: VecDeque<String>,
}

impl View {
    /// A view of a run of which nothing is known but its name and what a loss is a mean over.
    pub fn new(title: String, unit: &'static str) -> Self {
        Self {
            title,
            unit,
            ..Self::default()
        }
    }

    /// Takes a line of the log in.
    pub fn metric(&mut self, metric: &Metric) {
        self.step = self.step.max(metric.step());
        match metric {
            Metric::Train {
                step,
                loss,
                ms_per_step,
                ..
            } => {
                self.training.push((*step as f64, *loss));
                self.ms_per_step = Some(*ms_per_step).filter(|ms| ms.is_finite());
                self.last = Some(metric.clone());
            }
            Metric::Eval {
                step,
                split: EvalSplit::HeldOut,
                loss,
                accuracy,
                ..
            } => {
                self.evaluated.push((*step as f64, *loss));
                self.accuracy = *accuracy;
            }
            Metric::Eval { .. } => {}
            Metric::Sample { step, prompt, text } => {
                self.sample = Some((*step, format!("{prompt}{text}")));
            }
        }
    }

    /// Steps done, and of the whole run.
    pub fn progress(&mut self, step: u64, total_steps: Option<u64>) {
        self.step = self.step.max(step);
        self.total_steps = total_steps.or(self.total_steps);
    }

    /// How long a step takes, as far as no line of the log has told.
    pub fn pace(&mut self, ms_per_step: f64) {
        self.ms_per_step.get_or_insert(ms_per_step);
    }

    /// Takes a message in: a warning, a checkpoint.
    pub fn message(&mut self, text: &str) {
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if self.messages.len() == MOST_MESSAGES {
                self.messages.pop_front();
            }
            self.messages.push_back(printable(line).into_owned());
        }
    }

    /// Forgets what the log said: the run has gone back to an earlier step.
    pub fn forget(&mut self) {
        self.training.clear();
        self.evaluated.clear();
        (self.step, self.last, self.sample) = (0, None, None);
    }

    /// Steps done.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The time of the steps that are left, evaluations left out.
    pub fn time_left(&self) -> Option<Duration> {
        let left = self.total_steps?.saturating_sub(self.step);
        Duration::try_from_secs_f64(self.ms_per_step? * 1e-3 * left as f64).ok()
    }

    /// Draws all of it; of a small terminal what matters most.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let (sample, messages) = match area.height {
            0..14 => (0, 0),
            14..22 => (0, 4),
            22..34 => (6, 4),
            height => (height / 4, 6),
        };
        let rows = [
            Constraint::Length(2),
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(sample),
            Constraint::Length(messages),
            Constraint::Length(1),
        ];
        let [head, progress, middle, below, last, foot] = Layout::vertical(rows).areas(area);
        self.draw_head(frame, head);
        self.draw_progress(frame, progress);
        match area.width < 2 * FIGURES_WIDTH {
            true if area.height < 14 => self.draw_figures(frame, middle),
            true => {
                let rows = [Constraint::Min(4), Constraint::Length(9)];
                let [curves, figures] = Layout::vertical(rows).areas(middle);
                self.draw_curves(frame, curves);
                self.draw_figures(frame, figures);
            }
            false => {
                let columns = [Constraint::Min(1), Constraint::Length(FIGURES_WIDTH)];
                let [curves, figures] = Layout::horizontal(columns).areas(middle);
                self.draw_curves(frame, curves);
                self.draw_figures(frame, figures);
            }
        }
        self.draw_sample(frame, below);
        self.draw_messages(frame, last);
        let footer = Line::from(self.footer.as_str());
        frame.render_widget(Paragraph::new(footer).dim(), foot);
    }

    fn draw_head(&self, frame: &mut Frame<'_>, area: Rect) {
        let state = Line::from(self.state.as_str()).alignment(Alignment::Right);
        let lines = vec![
            Line::from(printable(&self.title).into_owned()).bold(),
            Line::from(printable(&self.subtitle).into_owned()).dim(),
        ];
        frame.render_widget(Paragraph::new(lines), area);
        let width = (self.state.chars().count() as u16).min(area.width);
        let right = Rect {
            x: area.right() - width,
            width,
            height: area.height.min(1),
            ..area
        };
        frame.render_widget(Paragraph::new(state), right);
    }

    fn draw_progress(&self, frame: &mut Frame<'_>, area: Rect) {
        let words = match self.total_steps {
            Some(total) => {
                let left = match self.time_left() {
                    Some(time) if self.step < total => format!(", about {} left", duration(time)),
                    _ => String::new(),
                };
                format!(
                    " step {} of {}{left}",
                    with_commas(self.step),
                    with_commas(total)
                )
            }
            None => format!(" step {}", with_commas(self.step)),
        };
        let total = self.total_steps.unwrap_or(0).max(1);
        let share = (self.step as f64 / total as f64).min(1.0);
        let width = usize::from(area.width).saturating_sub(words.chars().count());
        let width = if self.total_steps.is_some() { width } else { 0 };
        let filled = (share * width as f64).round() as usize;
        let line = Line::from(vec![
            Span::from("━".repeat(filled)).fg(TRAINING),
            Span::from("─".repeat(width - filled)).dim(),
            Span::from(words),
        ]);
        frame.render_widget(Paragraph::new(line), area);
    }

    fn draw_curves(&self, frame: &mut Frame<'_>, area: Rect) {
        let unit = self.unit;
        let title = Line::from(vec![
            Span::from(format!(" loss per {unit} ")),
            Span::from("training ").fg(TRAINING),
            Span::from("held out ").fg(EVALUATION),
        ]);
        let block = Block::new()
            .borders(Borders::TOP)
            .title(title)
            .border_style(Style::new().dim());
        let points = || self.training.iter().chain(&self.evaluated);
        let values = points()
            .map(|point| point.1)
            .filter(|value| value.is_finite() && *value > 0.0);
        let (least, greatest) = values.fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), value| {
            (a.min(value), b.max(value))
        });
        if !least.is_finite() || area.height < 4 || area.width < 16 {
            let words = match self.training.is_empty() {
                true => "the first line of the log is still to come",
                false => "",
            };
            return frame.render_widget(Paragraph::new(words).dim().block(block), area);
        }
        let is_logarithmic = greatest > 2.0 * least;
        let scaled = |value: f64| if is_logarithmic { value.log10() } else { value };
        let unscaled = |place: f64| {
            if is_logarithmic {
                10_f64.powf(place)
            } else {
                place
            }
        };
        let (low, high) = (scaled(least), scaled(greatest));
        let margin = ((high - low) * 0.04).max(1e-6);
        let (low, high) = (low - margin, high + margin);
        let last = points().map(|point| point.0).fold(2.0, f64::max);
        let columns = 2 * usize::from(area.width.saturating_sub(8)).max(1);
        let thinned = |points: &[Point]| -> Vec<Point> {
            let drawn = thin(points, columns, (0.0, last), |value| {
                value.is_finite() && value > 0.0
            });
            let drawn = drawn.pieces.into_iter().flatten();
            drawn.map(|(step, value)| (step, scaled(value))).collect()
        };
        let (training, evaluated) = (thinned(&self.training), thinned(&self.evaluated));
        let curve = |points, colour| {
            let data = Dataset::default().data(points).marker(Marker::Braille);
            data.graph_type(GraphType::Line)
                .style(Style::new().fg(colour))
        };
        let n_labels = usize::from(area.height.saturating_sub(3) / 3).clamp(2, 6);
        let label = |at: usize| {
            let place = low + (high - low) * at as f64 / (n_labels - 1) as f64;
            three_digits(unscaled(place))
        };
        let labels: Vec<String> = (0..n_labels).map(label).collect();
        let steps = [0.0, last / 2.0, last].map(|step| short(step.round()));
        let chart = Chart::new(vec![
            curve(&training, TRAINING),
            curve(&evaluated, EVALUATION),
        ])
        .block(block)
        .legend_position(None)
        .x_axis(
            Axis::default()
                .bounds([0.0, last])
                .labels(steps)
                .style(Style::new().dim()),
        )
        .y_axis(
            Axis::default()
                .bounds([low, high])
                .labels(labels)
                .style(Style::new().dim()),
        );
        frame.render_widget(chart, area);
    }

    fn draw_figures(&self, frame: &mut Frame<'_>, area: Rect) {
        let mut rows: Vec<(&str, String)> = Vec::new();
        if let Some(Metric::Train {
            loss,
            grad_norm,
            learning_rate,
            ms_per_step,
            tokens_per_second,
            images_per_second,
            memory_bytes,
            epoch,
            ..
        }) = &self.last
        {
            rows.push(("loss", number(*loss)));
            rows.extend(
                self.evaluated
                    .last()
                    .map(|point| ("held out", number(point.1))),
            );
            let finite = self.evaluated.iter().filter(|point| point.1.is_finite());
            let best = finite.min_by(|a, b| a.1.total_cmp(&b.1));
            rows.extend(
                best.map(|best| ("lowest", format!("{} at {}", number(best.1), short(best.0)))),
            );
            rows.extend(
                self.accuracy
                    .map(|share| ("accuracy", format!("{:.2} %", 100.0 * share))),
            );
            rows.push(("norm", number(f64::from(*grad_norm))));
            rows.push(("rate", format!("{learning_rate:.3e}")));
            rows.push(("step", format!("{} ms", number(*ms_per_step))));
            let speed = tokens_per_second.or(*images_per_second);
            rows.extend(speed.map(|speed| {
                (
                    "speed",
                    format!("{} {}s/s", short(speed.round()), self.unit),
                )
            }));
            rows.push(("epoch", format!("{epoch:.2}")));
            if self.memory.is_none() {
                rows.extend(memory_bytes.map(|bytes| ("memory", written(bytes))));
            }
        }
        if let Some(memory) = &self.memory {
            let held = written(memory.total_bytes());
            rows.push((
                "memory",
                format!("{held} of {}", written(memory.device_bytes)),
            ));
        }
        let lines = rows.into_iter().map(|(name, value)| {
            Line::from(vec![
                Span::from(format!("{name:9}")).dim(),
                Span::from(value),
            ])
        });
        let block = Block::new()
            .borders(Borders::TOP | Borders::LEFT)
            .title(" figures ")
            .border_style(Style::new().dim());
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).block(block), area);
    }

    fn draw_sample(&self, frame: &mut Frame<'_>, area: Rect) {
        let title = match &self.sample {
            Some((step, _)) => format!(" sample, step {} ", with_commas(*step)),
            None => " sample ".to_owned(),
        };
        let words = match &self.sample {
            Some((_, text)) => printable_lines(text).replace('\t', "    "),
            None => "none yet: sample.prompts are continued at every evaluation".to_owned(),
        };
        let style = match &self.sample {
            Some(_) => Style::new(),
            None => Style::new().add_modifier(Modifier::DIM),
        };
        let block = Block::new()
            .borders(Borders::TOP)
            .title(title)
            .border_style(Style::new().dim());
        let words = Paragraph::new(words)
            .style(style)
            .wrap(Wrap { trim: false });
        frame.render_widget(words.block(block), area);
    }

    fn draw_messages(&self, frame: &mut Frame<'_>, area: Rect) {
        let fitting = usize::from(area.height.saturating_sub(1));
        let skipped = self.messages.len().saturating_sub(fitting);
        let lines = self.messages.iter().skip(skipped);
        let lines: Vec<Line<'_>> = lines.map(|line| Line::from(line.as_str())).collect();
        let block = Block::new()
            .borders(Borders::TOP)
            .title(" messages ")
            .border_style(Style::new().dim());
        frame.render_widget(Paragraph::new(lines).block(block), area);
    }
}

/// A value of an axis.
fn three_digits(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size == 0.0 => "0".to_owned(),
        _ if size >= 1e4 => short(value.round()),
        _ if size >= 100.0 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ if size >= 1e-2 => format!("{value:.2}"),
        _ => format!("{value:.1e}"),
    }
}
