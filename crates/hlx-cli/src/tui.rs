//! `hlx train --tui`: the run's view on the terminal, drawn by a thread of its own while the run trains.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use hlx_report::View;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};

use crate::interrupt::Interrupt;
use crate::terminal::{Filled, is_taken, take_messages};

/// How long a key is waited for before the view is drawn again.
const TICK: Duration = Duration::from_millis(150);

const KEYS: &str = "q ends the run after its step";
const QUESTION: &str = "end after this step, with a checkpoint?  y / n";
const STOPPING: &str = "ends after this step; Ctrl-C ends at once, without a checkpoint";

/// The view of a run that trains in this process.
pub struct Tui {
    view: Arc<Mutex<View>>,
    is_over: Arc<AtomicBool>,
    drawing: Option<JoinHandle<()>>,
}

impl Tui {
    /// Fills the terminal with a view.
    ///
    /// # Errors
    /// The system's message; the terminal is as it was.
    pub fn new(mut view: View, interrupt: &Interrupt) -> Result<Self> {
        KEYS.clone_into(&mut view.footer);
        let view = Arc::new(Mutex::new(view));
        let is_over = Arc::new(AtomicBool::new(false));
        let mut filled = Filled::take()?;
        let (shown, over, interrupt) = (Arc::clone(&view), Arc::clone(&is_over), interrupt.clone());
        let drawing = std::thread::spawn(move || {
            while !over.load(Ordering::SeqCst) && is_taken() {
                // A terminal that is gone leaves a run that goes on.
                if draw(&mut filled, &shown, &interrupt).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            view,
            is_over,
            drawing: Some(drawing),
        })
    }

    /// The view, to change it.
    pub fn view(&self) -> MutexGuard<'_, View> {
        locked(&self.view)
    }

    /// Gives the terminal back.
    pub fn end(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(drawing) = self.drawing.take() {
            let _ = drawing.join();
        }
        crate::terminal::give_back();
    }
}

impl Drop for Tui {
    fn drop(&mut self) {
        self.end();
    }
}

fn locked(view: &Mutex<View>) -> MutexGuard<'_, View> {
    view.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Draws the view once, and waits a moment for a key.
fn draw(filled: &mut Filled, view: &Mutex<View>, interrupt: &Interrupt) -> Result<()> {
    let shown = {
        let mut view = locked(view);
        view.message(&take_messages());
        if interrupt.has_arrived() {
            STOPPING.clone_into(&mut view.footer);
            "stopping".clone_into(&mut view.state);
        }
        view.clone()
    };
    filled.terminal.draw(|frame| shown.draw(frame))?;
    if !poll(TICK)? {
        return Ok(());
    }
    let Event::Key(key) = read()? else {
        return Ok(());
    };
    let mut view = locked(view);
    let asks = view.footer == QUESTION;
    match pressed(key) {
        Some(KeyCode::Char('c')) if key.modifiers.contains(KeyModifiers::CONTROL) => {
            interrupt.request()
        }
        Some(KeyCode::Char('q') | KeyCode::Esc) if !asks => QUESTION.clone_into(&mut view.footer),
        Some(KeyCode::Char('y')) if asks => interrupt.request(),
        Some(_) if asks => KEYS.clone_into(&mut view.footer),
        _ => {}
    }
    Ok(())
}

/// The key of a press; a release is none.
pub fn pressed(key: KeyEvent) -> Option<KeyCode> {
    (key.kind != KeyEventKind::Release).then_some(key.code)
}
