"""Django's settings for Berth, all from `portal.env`; a demo and a production run differ in values only."""

import datetime as dt
import sys
from pathlib import Path
from typing import Any

import structlog

from portal import embedded
from portal.env import database_settings, load

ENV = load()
SERVERS = embedded.resolve(ENV)
BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = ENV.secret_key
BERTH_MASTER_KEY = ENV.master_key
BERTH_PUBLIC_URL = ENV.public_url
BERTH_BLOB_DIR = str(ENV.data_dir / "blobs")
BERTH_FILE_LIMIT_BYTES = 10 * 1024**3
BERTH_NODE_DOWN_AFTER_S = ENV.node_down_after_s

DEBUG = False
ALLOWED_HOSTS = ENV.allowed_hosts
CSRF_TRUSTED_ORIGINS = [ENV.public_url]
ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "accounts.User"

INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "rest_framework_simplejwt",
    "rest_framework_simplejwt.token_blacklist",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_filters",
    "django_htmx",
    "django_otp",
    "django_otp.plugins.otp_totp",
    "axes",
    "pgtrigger",
    "apps.core",
    "apps.audit",
    "apps.tenants",
    "apps.accounts",
    "apps.notifications",
    "apps.billing",
    "apps.fleet",
    "apps.storage",
    "apps.monitoring",
    "apps.workloads",
    "apps.scheduling",
    "apps.console",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django_otp.middleware.OTPMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "django.template.context_processors.i18n",
                "apps.console.frame.frame",
            ]
        },
    }
]


_DATABASE = database_settings(SERVERS.database_url)
# Embedded max_connections is 100: with 8 a process (BERTH_DB_POOL_SIZE) five processes take 41 at most.
# With 0 there is no pool, which suits a command that needs no server: it does not try again and again in vain.
_POOL: Any = ENV.db_pool_size and {"min_size": 1, "max_size": ENV.db_pool_size, "timeout": 15}
DATABASES = {
    "default": {
        **_DATABASE,
        "ENGINE": "django.db.backends.postgresql",
        # Statements that come again are parsed and planned once per connection: half of what a small query costs here.
        "OPTIONS": {**_DATABASE["OPTIONS"], "pool": _POOL, "server_side_binding": True, "prepare_threshold": 5},
        "CONN_MAX_AGE": 0,
        # the pool looks at a connection before it lends it: a restart of PostgreSQL must not fail the next requests
        "CONN_HEALTH_CHECKS": True,
    }
}

CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": SERVERS.redis_url,
        "KEY_PREFIX": "berth",
        "OPTIONS": {"socket_timeout": 2, "socket_connect_timeout": 2},
    }
}
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "apps.core.layer.HintLayer",
        # redis-py's default of 5 s would cut every idle subscription (LIBRARIES, trap 1)
        "CONFIG": {"hosts": [{"address": SERVERS.redis_url, "socket_timeout": None}], "prefix": "berth"},
    }
}

CELERY_BROKER_URL = SERVERS.broker_url
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False  # rows are truth: a lost message is swept, a repeated one changes nothing
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {"socket_timeout": None, "socket_keepalive": True}
CELERY_TASK_ALWAYS_EAGER = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_CREATE_MISSING_QUEUES = True

AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
AXES_USERNAME_FORM_FIELD = "username"  # what authenticate() is called with; its default is the model's "email"
# axes' middleware only replaces the answer of a locked-out sign-in, under ASGI by a broken one: accounts.signin says it
SILENCED_SYSTEM_CHECKS = ["axes.W002"]
LOGIN_URL = "/sign-in"
LOGIN_REDIRECT_URL = "/"

SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
_TLS = ENV.public_url.startswith("https://")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _TLS
SESSION_COOKIE_HTTPONLY = True
SECURE_HSTS_SECONDS = 31_536_000 if _TLS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = _TLS
SECURE_SSL_REDIRECT = False  # the proxy's work; behind it every request looks like plain HTTP
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "style-src": ["'self'"],
        "script-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "connect-src": ["'self'"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
        "form-action": ["'self'"],
    },
    # the admin theme needs inline styles and Alpine's evaluation; people reach it as a last resort only
    "EXCLUDE_URL_PREFIXES": ["/admin/"],
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024
FILE_UPLOAD_TEMP_DIR = str(ENV.data_dir)  # bodies of uploads; /tmp may be small or memory

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = ENV.data_dir / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
EMAIL_HOST = ENV.smtp_host or "127.0.0.1"
EMAIL_PORT = ENV.smtp_port
EMAIL_HOST_USER = ENV.smtp_user
EMAIL_HOST_PASSWORD = ENV.smtp_password
EMAIL_USE_TLS = ENV.smtp_security == "starttls"
EMAIL_USE_SSL = ENV.smtp_security == "tls"
EMAIL_TIMEOUT = 15
DEFAULT_FROM_EMAIL = ENV.mail_from

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "apps.accounts.authentication.Bearer",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["apps.core.rest.parsers.BoundedJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_METADATA_CLASS": None,
    "DEFAULT_THROTTLE_CLASSES": ["apps.core.rest.throttles.PerUser"],
    "DEFAULT_THROTTLE_RATES": {"user": "3000/min", "auth": "120/min"},
    "NUM_PROXIES": 0,  # uvicorn has put the address that may be believed into REMOTE_ADDR
    "EXCEPTION_HANDLER": "portal.api_errors.problem_details",
}
SIMPLE_JWT = {
    "ACCESS_TOKEN_LIFETIME": dt.timedelta(minutes=10),
    "REFRESH_TOKEN_LIFETIME": dt.timedelta(days=7),
    "ALGORITHM": "EdDSA",  # the key stands in apps.accounts.tokens
    "SIGNING_KEY": "",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Berth",
    "DESCRIPTION": "Training jobs on your own GPU nodes.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "ENUM_NAME_OVERRIDES": {
        "JobState": "apps.workloads.choices.JobState",
        "JobResult": "apps.workloads.choices.JobResult",
        "AttemptState": "apps.workloads.choices.AttemptState",
        "PendingReason": "apps.workloads.choices.PendingReason",
        "EndReason": "apps.workloads.choices.EndReason",
        "ShownState": "apps.workloads.api.serializers.SHOWN_STATES",
        "NodeState": "apps.fleet.choices.NodeState",
        "GpuHealth": "apps.fleet.choices.GpuHealth",
        "Role": "apps.tenants.choices.Role",
        "Resource": "apps.tenants.choices.Resource",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "apps.core.rest.openapi.add_problems",
    ],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
}

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "{asctime} {levelname} {name} {message}", "style": "{"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": "INFO"},
    "loggers": {"paramiko": {"level": "WARNING"}, "axes": {"level": "WARNING"}, "httpx": {"level": "WARNING"}},
}

structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.format_exc_info,  # never with local variables: they hold secrets
        structlog.processors.KeyValueRenderer(key_order=["event"]),
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
    cache_logger_on_first_use=True,
)

if "pytest" in sys.modules:
    PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # argon2 would cost 0.1 s per test user
    STORAGES["staticfiles"]["BACKEND"] = "django.contrib.staticfiles.storage.StaticFilesStorage"
