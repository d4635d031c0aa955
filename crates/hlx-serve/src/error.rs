//! Errors as clients get them.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hlx_train::engine::{Fault, Refused};
use serde_json::{Value, json};

/// What a request gets instead of an answer, in OpenAI's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The status of HTTP.
    pub status: StatusCode,
    /// One line.
    pub message: String,
    /// The parameter that is wrong.
    pub param: Option<String>,
    /// A word for programs.
    pub code: Option<&'static str>,
}

impl ApiError {
    /// An error without a parameter.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            param: None,
            code: None,
        }
    }

    /// A parameter that is wrong.
    pub fn of_parameter(name: &str, reason: impl std::fmt::Display) -> Self {
        Self {
            param: Some(name.to_owned()),
            ..Self::new(StatusCode::BAD_REQUEST, format!("{name}: {reason}"))
        }
    }

    /// A parameter that is not known here, or one of its values.
    pub fn unsupported(name: &str, reason: impl std::fmt::Display) -> Self {
        Self {
            code: Some("unsupported_parameter"),
            ..Self::of_parameter(name, reason)
        }
    }

    /// What went wrong here, not in the request.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// With a word for programs.
    #[must_use]
    pub fn with_code(self, code: &'static str) -> Self {
        Self {
            code: Some(code),
            ..self
        }
    }

    fn kind(&self) -> &'static str {
        match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// The body.
    pub fn body(&self) -> Value {
        json!({"error": {
            "message": self.message,
            "type": self.kind(),
            "param": self.param,
            "code": self.code,
        }})
    }

    /// The body in Anthropic's form.
    pub fn message_body(&self) -> Value {
        let kind = match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
            status if status.is_server_error() => "api_error",
            _ => "invalid_request_error",
        };
        json!({"type": "error", "error": {"type": kind, "message": self.message}})
    }

    /// A response with a body in either form.
    pub(crate) fn response(&self, body: &Value) -> Response {
        let mut response = json_response(self.status, body);
        let headers = response.headers_mut();
        match self.status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response
    }
}

impl From<Fault> for ApiError {
    fn from(fault: Fault) -> Self {
        let error = Self::of_parameter(fault.name, &fault.reason);
        match fault.reason.contains("the model takes") {
            true => error.with_code("context_length_exceeded"),
            false => error,
        }
    }
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Fault(fault) => fault.into(),
            Refused::Busy { waiting } => {
                let message = format!("{waiting} requests wait, and no more may: try again later");
                Self::new(StatusCode::TOO_MANY_REQUESTS, message).with_code("queue_full")
            }
            Refused::Ended => Self::new(StatusCode::SERVICE_UNAVAILABLE, "the server is ending"),
        }
    }
}

impl IntoResponse for ApiError {
    /// In OpenAI's form; the error itself is beside it, for those who write another.
    fn into_response(self) -> Response {
        let mut response = self.response(&self.body());
        response.extensions_mut().insert(self);
        response
    }
}

/// A JSON body.
pub(crate) fn json_response(status: StatusCode, body: &Value) -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    (status, json, body.to_string()).into_response()
}
