"""Forms that belong to no single noun."""

from django.contrib.auth.forms import AuthenticationForm


class SignInForm(AuthenticationForm):
    """Email address and password."""

    @property
    def email(self) -> str:
        """The address as typed, also when the sign-in failed."""
        return str(self.data.get("username", "")).strip().lower()

    def clean_username(self) -> str:
        """Addresses are kept in lower case."""
        return self.email
