//! An in-memory side of the seam, and a client that speaks bytes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::Method;
use mapwright::http::{
    Act, Action, Collection, Create, Limits, ListQuery, Outcome, Resources, Update, run, service,
};
use mapwright_engine::problem::{Problem, ProblemStyle};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A test that waits longer than this has found something that hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// Instances by id, and what the last create was asked with.
#[derive(Default)]
pub(super) struct Memory {
    instances: Mutex<BTreeMap<String, Value>>,
    pub(super) last_create: Mutex<Option<Create>>,
}

impl Memory {
    pub(super) fn holds(&self, id: &str) -> bool {
        self.instances.lock().unwrap().contains_key(id)
    }

    fn find(&self, id: &str) -> Result<Value, Problem> {
        let found = self.instances.lock().unwrap().get(id).cloned();
        found.ok_or_else(|| Problem::not_found(format!("there is no {id:?}")))
    }
}

impl Resources for Memory {
    fn collections(&self) -> Arc<[Collection]> {
        let action = |name: &str, method| Action { name: name.into(), method };
        let things = Collection {
            name: "things".into(),
            operations: vec![Method::POST, Method::GET, Method::DELETE],
            actions: vec![action("stop", Method::POST), action("logs", Method::GET)],
            problem_style: ProblemStyle::default(),
        };
        let plain = Collection {
            name: "plain".into(),
            operations: vec![Method::POST, Method::GET, Method::PATCH],
            actions: Vec::new(),
            problem_style: ProblemStyle::BareCode,
        };
        vec![things, plain].into()
    }

    fn metrics(&self) -> String {
        "things 1\n".to_owned()
    }

    fn unready(&self) -> Vec<String> {
        match self.holds("unready") {
            true => vec!["something is missing".to_owned(), "and another thing".to_owned()],
            false => Vec::new(),
        }
    }

    fn openapi(&self) -> String {
        json!({ "openapi": "3.1.0" }).to_string()
    }

    async fn health(&self, collection: Option<&str>) -> Value {
        json!({ "status": "healthy", "of": collection })
    }

    /// Slow or broken where the id says so.
    async fn create(&self, _: &str, create: Create) -> Result<Value, Problem> {
        *self.last_create.lock().unwrap() = Some(create.clone());
        let id = create.id.unwrap_or_else(|| "made".into());
        if id.starts_with("slow") {
            tokio::time::sleep(Duration::from_millis(900)).await;
        }
        assert_ne!(id, "broken");
        let value = json!({ "id": id, "body": create.body });
        self.instances.lock().unwrap().insert(id, value.clone());
        Ok(value)
    }

    async fn get(&self, _: &str, id: &str) -> Result<Value, Problem> {
        self.find(id)
    }

    async fn list(&self, collection: &str, query: ListQuery) -> Result<Value, Problem> {
        Ok(json!({ collection: [], "size": query.max_page_size, "token": query.page_token }))
    }

    async fn update(&self, _: &str, id: &str, update: Update) -> Result<Value, Problem> {
        Ok(json!({ "id": id, "body": update.body? }))
    }

    async fn delete(&self, _: &str, id: &str, _: Option<String>) -> Result<(), Problem> {
        self.find(id)?;
        self.instances.lock().unwrap().remove(id);
        Ok(())
    }

    async fn act(&self, _: &str, id: &str, act: Act) -> Result<Outcome, Problem> {
        match act.name.as_str() {
            "logs" => Ok(Outcome::Text(format!("{id} {:?}", act.query))),
            _ => Ok(Outcome::Json(json!({ "id": id, "did": act.name, "body": act.body }))),
        }
    }
}

/// A server on a port of its own.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) memory: Arc<Memory>,
    shutdown: oneshot::Sender<()>,
    pub(super) running: JoinHandle<()>,
}

impl Server {
    pub(super) async fn start(limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let memory = Arc::new(Memory::default());
        let (shutdown, asked) = oneshot::channel::<()>();
        let service = service(Arc::clone(&memory), Arc::default(), &limits);
        let running = tokio::spawn(run(listener, None, service, limits, async {
            let _ = asked.await;
        }));
        Self { address, memory, shutdown, running }
    }

    pub(super) async fn open(&self) -> Client {
        Client { stream: TcpStream::connect(self.address).await.unwrap(), rest: Vec::new() }
    }

    /// One request on a connection of its own.
    pub(super) async fn ask(&self, request: impl AsRef<[u8]>) -> Answer {
        let mut client = self.open().await;
        client.send(request).await;
        client.answer(false).await.expect("an answer")
    }

    /// The same for HEAD, whose answer tells the length of a body that does not come.
    pub(super) async fn ask_head(&self, path: &str) -> Answer {
        self.ask_head_with(path, "Accept: */*").await
    }

    pub(super) async fn ask_head_with(&self, path: &str, header: &str) -> Answer {
        let mut client = self.open().await;
        client
            .send(format!("HEAD {path} HTTP/1.1\r\nHost: x\r\n{header}\r\nConnection: close\r\n\r\n"))
            .await;
        let answer = client.answer(true).await.expect("an answer");
        assert!(client.is_closed().await, "HEAD {path} sent a body");
        answer
    }

    /// Asks for the end and hands back the task that comes to it.
    pub(super) fn stop(self) -> JoinHandle<()> {
        let _ = self.shutdown.send(());
        self.running
    }
}

/// A client that sends bytes as it is told and reads one answer after another.
pub(super) struct Client {
    pub(super) stream: TcpStream,
    rest: Vec<u8>,
}

impl Client {
    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// The next answer; none where the connection ends first.
    pub(super) async fn answer(&mut self, to_head: bool) -> Option<Answer> {
        let mut answer = self.head().await?;
        if !to_head {
            answer.body = String::from_utf8(self.body_of(&answer).await?).unwrap();
        }
        Some(answer)
    }

    /// The body of the next answer, which need not be text.
    pub(super) async fn bytes(&mut self) -> Option<Vec<u8>> {
        let answer = self.head().await?;
        self.body_of(&answer).await
    }

    async fn head(&mut self) -> Option<Answer> {
        let end = loop {
            match self.rest.windows(4).position(|window| window == b"\r\n\r\n") {
                Some(end) => break end + 4,
                None => self.more().await?,
            }
        };
        let head = String::from_utf8(self.rest.drain(..end).collect()).unwrap();
        Some(Answer::from_head(&head))
    }

    async fn body_of(&mut self, answer: &Answer) -> Option<Vec<u8>> {
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        while self.rest.len() < length {
            self.more().await?;
        }
        Some(self.rest.drain(..length).collect())
    }

    /// Whether the peer closes without a further byte.
    pub(super) async fn is_closed(&mut self) -> bool {
        self.rest.is_empty() && matches!(timeout(PATIENCE, self.stream.read(&mut [0; 16])).await, Ok(Ok(0)))
    }

    async fn more(&mut self) -> Option<()> {
        let mut chunk = [0; 4096];
        let read = self.stream.read(&mut chunk);
        let read = timeout(PATIENCE, read).await.expect("an answer or an end in time").ok()?;
        if read == 0 {
            return None;
        }
        self.rest.extend_from_slice(&chunk[..read]);
        Some(())
    }
}

/// One answer as it came.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Answer {
    fn from_head(head: &str) -> Self {
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap().parse().unwrap();
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        Self { status, headers, body: String::new() }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect(&self.body)
    }

    /// The document of a problem, whose status and media type agree with the answer.
    #[track_caller]
    pub(super) fn problem(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let document = self.json();
        assert_eq!(document["status"], status);
        document
    }
}

pub(super) fn get(path: &str) -> String {
    bare("GET", path)
}

pub(super) fn bare(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n")
}

/// A request with a body and further header lines.
pub(super) fn with_body(method: &str, path: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}
