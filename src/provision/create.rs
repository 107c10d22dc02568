//! A create from the body to the answer.

use serde_json::Value;
use uuid::Uuid;

use super::answer::{broken_rule, problem_of, problem_of_object};
use super::apply::{NotApplied, abandon, plan, promote};
use super::claim::Claimed;
use super::{CreateRequest, Provisioner, check_id, tell_instance};
use crate::clock;
use crate::engine::format::Moment;
use crate::engine::inputs::Inputs;
use crate::engine::json::canonical;
use crate::engine::manifest::Manifest;
use crate::engine::names::{DNS_LABEL, fingerprint};
use crate::engine::problem::Problem;
use crate::engine::request::Request;
use crate::provider::Known;
use crate::record::{InstanceRecord, Method, State};

/// Generated names that are tried before a create gives up: each is in use with odds of one in millions.
const NAME_ATTEMPTS: u32 = 4;

impl Provisioner {
    pub async fn create(&self, create: CreateRequest) -> Result<Value, Problem> {
        let id = self.choose_id(&create)?;
        tell_instance(&id);
        let digest = fingerprint(&[&canonical(&create.body)]);
        if let Some(known) = self.earlier(&id, create.idempotency_key.as_deref(), &digest).await? {
            return Ok(self.replay(known));
        }
        let request = self.provider.service.read_create(create.body);
        let inputs = self.validate(&id, &request).await?;
        if self.provider.find(&id).is_some_and(|known| known.stored.is_none()) {
            return Err(super::claim::taken(&id));
        }
        self.all_served().await?;
        let draft = |life, attempt| self.draft(&id, life, attempt, &inputs, &create.idempotency_key, &digest);
        let claimed =
            self.claim(|life| Ok(draft(life, 0)?.0), create.idempotency_key.as_deref(), &digest).await?;
        let mut known = match claimed {
            Claimed::Earlier(known) => return Ok(self.replay(known)),
            Claimed::Won(known) => known,
        };
        for attempt in 0..NAME_ATTEMPTS {
            let (record, manifests) = draft(known.record.life, attempt)?;
            if attempt > 0 {
                known = self.replan(&known, record).await?;
            }
            match self.apply(&known.record, &manifests).await {
                Ok(objects) => return self.answer(known, &manifests, objects),
                Err(NotApplied::NameInUse) if attempt + 1 < NAME_ATTEMPTS => {}
                Err(refused) => return Err(self.give_up(&known, &request, &inputs, refused).await),
            }
        }
        Err(super::answer::internal())
    }

    /// The caller's id, or one that a repeat with the same key finds again, or a new one.
    fn choose_id(&self, create: &CreateRequest) -> Result<String, Problem> {
        match (&create.id, &create.idempotency_key) {
            (Some(id), _) => check_id(id).map(|()| id.clone()),
            // Some callers look their instance up by the key that they sent.
            (None, Some(key)) if self.provider.id_from_key && DNS_LABEL.accepts(key) => {
                check_id(key).map(|()| key.clone())
            }
            (None, Some(key)) => {
                let name =
                    [&self.provider.name, &self.provider.service.service_type, key].map(String::as_str);
                Ok(Uuid::new_v5(&Uuid::NAMESPACE_OID, fingerprint(&name).as_bytes()).to_string())
            }
            (None, None) => Ok(clock::unique("instance").to_string()),
        }
    }

    async fn validate(&self, id: &str, request: &Request) -> Result<Inputs, Problem> {
        let identity = self.provider.identity(id, 1);
        let settings = self.provider.settings.clone();
        let mut inputs = Inputs { spec: request.spec.clone(), settings, ..Inputs::default() };
        self.judge(Moment::Create, request, &identity, &mut inputs).await?;
        Ok(inputs)
    }

    /// Nothing is claimed for what the cluster cannot hold: what is claimed could not be taken back either.
    async fn all_served(&self) -> Result<(), Problem> {
        for object in self.provider.service.objects.iter().filter(|object| object.when.is_none()) {
            let resource = self.provider.resource(&object.kind).await;
            resource.map_err(|refusal| problem_of(&refusal, "looking for a kind"))?;
        }
        Ok(())
    }

    /// The record of a life and the manifests that it plans.
    fn draft(
        &self,
        id: &str,
        life: u64,
        attempt: u32,
        inputs: &Inputs,
        key: &Option<String>,
        digest: &str,
    ) -> Result<(InstanceRecord, Vec<Manifest>), Problem> {
        let provider = &self.provider;
        let identity = provider.identity(id, life);
        let manifests =
            provider.service.render(&identity, inputs, attempt).map_err(|error| broken_rule(&error))?;
        let mut record = InstanceRecord {
            id: id.to_owned(),
            service_type: provider.service.service_type.clone(),
            provider: provider.name.clone(),
            life,
            state: State::Creating,
            claim: clock::unique("claim").to_string(),
            revision: provider.service.revision.clone(),
            create_time: crate::provider::now(),
            spec: inputs.spec.clone(),
            plan: plan(&manifests, life),
            old: Vec::new(),
            keys: Vec::new(),
            pending: None,
            owed_end: None,
            end_time: None,
        };
        record.use_key(key.as_deref(), Method::Create, digest);
        Ok((record, manifests))
    }

    /// Writes the plan with other names before anything of it is made.
    async fn replan(&self, known: &Known, fresh: InstanceRecord) -> Result<Known, Problem> {
        let record = InstanceRecord { plan: fresh.plan, ..known.record.clone() };
        self.update_record(known, record)
            .await
            .map_err(|refusal| problem_of(&refusal, "choosing other names"))
    }

    /// The objects are there: the instance is visible from now on, and its record says so soon.
    fn answer(&self, known: Known, manifests: &[Manifest], objects: Vec<Value>) -> Result<Value, Problem> {
        for (manifest, object) in manifests.iter().zip(&objects) {
            self.provider.saw(&manifest.kind, object);
        }
        self.provider.has_answered(&known.record.id, known.record.life);
        let answer = self.show(known.clone()).map(as_made);
        let provider = self.provider.clone();
        tokio::spawn(async move {
            if let Err(refusal) = promote(&provider, &known, &objects).await {
                // A deletion came in between and wins, or the next sweep completes it.
                tracing::warn!(
                    id = known.record.id,
                    error = refusal.message,
                    "a record does not say ready yet"
                );
            }
        });
        answer
    }

    /// Nothing is left of a refused create: its objects go first, then the claim.
    async fn give_up(
        &self,
        known: &Known,
        request: &Request,
        inputs: &Inputs,
        refused: NotApplied,
    ) -> Problem {
        let problem = match &refused {
            NotApplied::NameInUse => super::answer::internal(),
            NotApplied::Refused(object, refusal) => {
                problem_of_object(refusal, "creating an object", request, "spec", || {
                    let identity = self.provider.identity(&known.record.id, known.record.life);
                    let traced = self.provider.service.trace(&identity, inputs, 0)?;
                    Ok(traced
                        .into_iter()
                        .find(|traced| traced.object == *object)
                        .map_or(Vec::new(), |t| t.fields))
                })
            }
        };
        if let Err(refusal) = abandon(&self.provider, known).await {
            // The record stays and says what may be left: the next sweep finishes.
            tracing::warn!(
                id = known.record.id,
                error = refusal.message,
                "a refused create is not cleared away yet"
            );
        }
        problem
    }
}

/// An instance changes after its create, not within it: the cluster may be faster than our answer.
fn as_made(mut answer: Value) -> Value {
    answer["update_time"] = answer["create_time"].clone();
    answer
}
