package provider

import (
	"context"
	"errors"

	"github.com/google/uuid"
)

// ErrBusy says that a call had no turn: its tenant has as many of this kind waiting as it may, or
// the limit of calls left none in time. The call was not made. A [Patient] one waits longer.
var ErrBusy = errors.New("provider: too many calls are waiting")

type tenantKey struct{}

// ForTenant says for whom the calls under the context are made. The calls to the bank are few a
// second; an adapter shares them out between tenants. Without it a call is the service's own.
func ForTenant(ctx context.Context, tenant uuid.UUID) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// TenantOf returns the tenant that [ForTenant] named, or uuid.Nil.
func TenantOf(ctx context.Context) uuid.UUID {
	tenant, _ := ctx.Value(tenantKey{}).(uuid.UUID)
	return tenant
}

type patientKey struct{}

// Patient says that nobody waits for the answers of the calls under the context, and that their
// caller bounds how many there are at once: a question may wait for its turn, however many of its
// tenant do, for as long as the context lasts.
func Patient(ctx context.Context) context.Context { return context.WithValue(ctx, patientKey{}, true) }

// IsPatient reports whether the context is [Patient].
func IsPatient(ctx context.Context) bool { return ctx.Value(patientKey{}) != nil }
