//! A socket that tells when its client speaks, and gives a client up that does not listen.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::pulse::{Pulse, Turn};

pub(super) struct Stream<S> {
    socket: S,
    pulse: Arc<Pulse>,
    /// How long everything that waits to be sent may wait.
    patience: Option<Duration>,
    /// Runs while something waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream<S> {
    pub(super) fn new(socket: S, pulse: Arc<Pulse>, patience: Option<Duration>) -> Self {
        Self { socket, pulse, patience, waiting: None }
    }

    /// Passes a write on. One that waits starts the clock, and only a flush stops it: a client that takes a
    /// byte now and then has not taken the answer.
    fn bounded<T>(
        &mut self,
        context: &mut Context<'_>,
        wrote: Poll<io::Result<T>>,
        whole: bool,
    ) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            if whole {
                self.waiting = None;
            }
            return wrote;
        }
        let Some(patience) = self.patience else { return Poll::Pending };
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not take its answer")))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.pulse.heard();
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.bounded(context, wrote, false)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.socket).poll_write_vectored(context, slices);
        self.bounded(context, wrote, false)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(context);
        self.bounded(context, flushed, true)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.socket).poll_shutdown(context);
        self.bounded(context, shut, true)
    }
}

/// The body of an answer, whose turn ends when all of it is taken.
pub(super) struct Answer<B> {
    body: B,
    _turn: Turn,
}

impl<B> Answer<B> {
    pub(super) fn new(body: B, turn: Turn) -> Self {
        Self { body, _turn: turn.answered() }
    }
}

impl<B: Body + Unpin> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
