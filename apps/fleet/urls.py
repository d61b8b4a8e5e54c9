"""Where the pages of nodes are."""

from django.urls import path, re_path

from apps.fleet import views

urlpatterns = [
    path("nodes", views.node_list_page, name="nodes"),
    path("nodes/new", views.node_new_page, name="node_new"),
    path("nodes/<slug:node>", views.node_page, name="node"),
    path("nodes/<slug:node>/live", views.node_live, name="node_live"),
    path("nodes/<slug:node>/trust", views.node_trust_act, name="node_trust"),
    re_path(
        r"^nodes/(?P<node>[\w-]+)/(?P<verb>cordon|uncordon|drain|maintenance|retire|inventory)$",
        views.node_act,
        name="node_act",
    ),
]
